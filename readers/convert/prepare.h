#ifndef MILLRACE_READERS_CONVERT_PREPARE_H_
#define MILLRACE_READERS_CONVERT_PREPARE_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/convert.h"
#include "readers/convert/record.h"

// The changes that `convert` makes to samples between input and output.

namespace millrace::readers::internal {

// Takes the features that `options` name, and encodes images anew or checks them. `declared`: the
// input's schema, if it has one; only what is optional there may be missing. Thread-safe.
//   INVALID_ARGUMENT  a feature is missing, an image is damaged, or two features would have one
//                     name
absl::Status PrepareSample(const ConvertOptions& options, std::span<const ConvertFeature> declared,
                           Sample& sample);

// The schema of such samples.
//   INVALID_ARGUMENT  a feature that is taken is none of the schema's
absl::StatusOr<std::vector<ConvertFeature>> PrepareSchema(const ConvertOptions& options,
                                                          std::vector<ConvertFeature> schema);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_CONVERT_PREPARE_H_
