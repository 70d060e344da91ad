#ifndef MILLRACE_READERS_EXAMPLE_FEATURE_SPEC_H_
#define MILLRACE_READERS_EXAMPLE_FEATURE_SPEC_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/run.h"
#include "base/schema.h"
#include "readers/feature_spec.h"

// Helpers of all ops that parse records.

namespace millrace::readers::internal {

// True if the record tells the number of values.
inline bool IsRagged(const FeatureSpec& spec) {
  return spec.dtype != DType::kBytes && spec.shape.rank() > 0 && spec.shape[0] == Shape::kUnknown;
}

// The shape with `extent` in the place of an unknown first one.
Shape ShapeOf(const FeatureSpec& spec, int64_t extent);

// Writes the default of a feature of numbers to its `elements` at `out`.
void FillDefault(const FeatureSpec& spec, void* out, int64_t elements);

// INVALID_ARGUMENT if `op` cannot have these features: none, one twice, or one that cannot be.
// `may_have_lists`: true if `op` takes features with `per_step`.
absl::Status CheckFeatures(std::string_view op, std::span<const FeatureSpec> features,
                           bool may_have_lists = false);

// Fails the row with `status`: kExample if it is DATA_LOSS, else kFeature.
void FailRecord(Run& run, int64_t row, absl::Status status);

// The schema behind an op that makes `features` of the bytes `field`.
absl::StatusOr<Schema> ResolveFeatures(std::string_view op, const std::string& field,
                                       std::span<const FeatureSpec> features, const Schema& input);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_EXAMPLE_FEATURE_SPEC_H_
