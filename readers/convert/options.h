#ifndef MILLRACE_READERS_CONVERT_OPTIONS_H_
#define MILLRACE_READERS_CONVERT_OPTIONS_H_

#include "readers/convert.h"

namespace millrace::readers::internal {

// Whether records go through as samples of named features, not as bytes.
bool HasSamples(const ConvertOptions& options);

// Whether images are encoded anew.
bool Recodes(const ConvertOptions& options);

// Whether images are encoded anew or checked.
bool LooksAtImages(const ConvertOptions& options);

// CANCELLED if the caller wants the conversion to end.
absl::Status CheckGoesOn(const ConvertOptions& options);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_CONVERT_OPTIONS_H_
