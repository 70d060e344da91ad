#ifndef MILLRACE_AUGMENT_IMAGE_PROBE_H_
#define MILLRACE_AUGMENT_IMAGE_PROBE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace millrace::augment {

enum class ImageFormat { kJpeg, kPng };

// What an image says of itself. A value type.
struct ImageInfo {
  ImageFormat format = ImageFormat::kJpeg;
  int64_t height = 0;
  int64_t width = 0;
  // As stored: 1 grey, 2 grey and alpha, 3 colour (a PNG palette too), 4 colour and alpha or CMYK.
  int channels = 0;
};

// Reads the header of an encoded image; no pixel is decoded and nothing of its size is allocated.
//   INVALID_ARGUMENT  not a JPEG or PNG, or its header is damaged (RecordErrorReason kImage)
absl::StatusOr<ImageInfo> ProbeImage(std::string_view encoded);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_PROBE_H_
