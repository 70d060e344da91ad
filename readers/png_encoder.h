#ifndef MILLRACE_READERS_PNG_ENCODER_H_
#define MILLRACE_READERS_PNG_ENCODER_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace millrace::readers {

struct PngOptions {
  bool stored = false;  // true to neither filter nor compress the pixels
  int orientation = 1;  // Exif's; 1, upright, is not written
};

// Encodes `height` rows of `width` pixels, of 1 byte (grey) or 3 (RGB), as PNG; the same pixels
// give the same bytes.
// REQUIRES: channels is 1 or 3, pixels.size() == height * width * channels.
//   RESOURCE_EXHAUSTED, INTERNAL  libspng failed
absl::StatusOr<std::string> EncodePng(std::span<const uint8_t> pixels, uint32_t height,
                                      uint32_t width, int channels, const PngOptions& options = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PNG_ENCODER_H_
