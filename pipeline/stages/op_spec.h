#ifndef MILLRACE_PIPELINE_STAGES_OP_SPEC_H_
#define MILLRACE_PIPELINE_STAGES_OP_SPEC_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/schema.h"
#include "pipeline/sample_op.h"

// The fields of ops that are made from functions.

namespace millrace::pipeline {

//   INVALID_ARGUMENT  a field is named twice, a field that is written has a shape that no value
//                     has, or preferred_rows < 1
absl::Status CheckSpec(const SampleOpSpec& spec);

// Returns the fields behind the op.
//   NOT_FOUND         the input lacks a field
//   INVALID_ARGUMENT  a field has another dtype or shape than `expects` names
absl::StatusOr<Schema> ResolveSpec(const SampleOpSpec& spec, const Schema& input);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_OP_SPEC_H_
