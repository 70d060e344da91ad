#ifndef MILLRACE_READERS_CONVERT_PREPARE_INTERNAL_H_
#define MILLRACE_READERS_CONVERT_PREPARE_INTERNAL_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/convert.h"
#include "readers/convert_record_internal.h"

// What `convert` does to samples between input and output. Internal.

namespace millrace::readers::internal {

// Takes the features that `options` name, and encodes images anew. `is_declared`: the input's schema
// has said already what may be missing. Thread-safe.
//   INVALID_ARGUMENT  a feature is missing, or an image is damaged
absl::Status PrepareSample(const ConvertOptions& options, bool is_declared, Sample& sample);

// The schema of such samples.
//   INVALID_ARGUMENT  a feature that is taken is none of the schema's
absl::StatusOr<std::vector<ConvertFeature>> PrepareSchema(const ConvertOptions& options,
                                                          std::vector<ConvertFeature> schema);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_CONVERT_PREPARE_INTERNAL_H_
