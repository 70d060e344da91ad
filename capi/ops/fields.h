#ifndef MILLRACE_CAPI_OPS_FIELDS_H_
#define MILLRACE_CAPI_OPS_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/shape.h"
#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/millrace.h"
#include "pipeline/sample_op.h"

// The fields of an op on samples or on runs, as C gives them.

namespace millrace::capi {

// Adds `count` names to `added`.
//   INVALID_ARGUMENT  "TYPE: WHAT is NULL"
absl::Status AddNames(const char* type, const char* what, const char* const* names, size_t count,
                      std::vector<std::string>& added);
//   INVALID_ARGUMENT  a field is NULL, or is none
absl::Status AddFields(const char* type, const mr_field* const* fields, size_t count,
                       std::vector<Field>& added);

// Returns the fields of an `op` of C, a struct of `type`.
//   INVALID_ARGUMENT  as AddNames and AddFields
template <typename Op>
absl::StatusOr<pipeline::SampleOpSpec> SpecOf(const char* type, const Op& op) {
  pipeline::SampleOpSpec spec;
  MILLRACE_RETURN_IF_ERROR(AddNames(type, "a name of reads", op.reads, op.num_reads, spec.reads));
  MILLRACE_RETURN_IF_ERROR(
      AddNames(type, "a name of removes", op.removes, op.num_removes, spec.removes));
  MILLRACE_RETURN_IF_ERROR(AddFields(type, op.writes, op.num_writes, spec.writes));
  return spec;
}

// Returns the shape that a program gives to `call`.
//   INVALID_ARGUMENT  the rank is that of no shape
absl::StatusOr<Shape> ShapeOf(const char* call, const int64_t* shape, int32_t rank);

// Returns the status of an error that an op gives to a sample, and frees the error. DATA_LOSS is
// damage: a value outside the range that the op accepts.
absl::Status TakeSampleError(mr_error* error);

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_OPS_FIELDS_H_
