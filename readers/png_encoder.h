#ifndef MILLRACE_READERS_PNG_ENCODER_H_
#define MILLRACE_READERS_PNG_ENCODER_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace millrace::readers {

// Encodes `height` rows of `width` pixels, of 1 byte (grey) or 3 (RGB), as PNG; the same pixels
// give the same bytes. With `stored` they are neither filtered nor compressed.
// REQUIRES: channels is 1 or 3, pixels.size() == height * width * channels.
//   RESOURCE_EXHAUSTED, INTERNAL  libspng failed
absl::StatusOr<std::string> EncodePng(std::span<const uint8_t> pixels, uint32_t height,
                                      uint32_t width, int channels, bool stored = false);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PNG_ENCODER_H_
