#ifndef MILLRACE_AUGMENT_CODEC_ENCODER_H_
#define MILLRACE_AUGMENT_CODEC_ENCODER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace millrace::augment {

// Encodes dense pixels, grey (1 channel) or RGB (3), as a baseline JPEG of `quality` 1 to 100,
// chroma at half the resolution, with libjpeg's accurate transform: the same pixels give the same
// bytes on every machine. Exif data are written where `orientation`, Exif's, is not 1 (upright).
// REQUIRES: both extents in 1 to 65500, libjpeg's limit.
//   RESOURCE_EXHAUSTED  there is no memory for it
absl::StatusOr<std::string> EncodeJpeg(const uint8_t* pixels, int64_t height, int64_t width,
                                       int channels, int quality, int orientation = 1);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_CODEC_ENCODER_H_
