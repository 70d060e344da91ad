#ifndef MILLRACE_AUGMENT_IMAGE_RECODER_H_
#define MILLRACE_AUGMENT_IMAGE_RECODER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "readers/image_codec.h"

namespace millrace::augment {

// How images are encoded anew.
enum class ImageEncoding {
  kSame,  // as they were, where they are shrunk
  kJpeg,  // as JPEG; a JPEG that is not shrunk stays as it is
  kRaw,   // all of them as pixels: rows of grey or RGB bytes
  // FFCV's write modes, where raw is a PNG whose pixels are stored, not compressed: decode_image
  // reads it without a loss, near the speed of a copy, and images of any size lie side by side with
  // JPEG.
  kStored,      // all of them raw
  kSmart,       // JPEG where raw pixels take more than smart_threshold bytes, else raw
  kProportion,  // JPEG with a chance of compress_probability, else raw
};

struct ImageRecoderOptions {
  // Images are shrunk so far that the longer side has at most so many pixels, or the shorter one;
  // the other side keeps the shape, rounded down, at least 1. Not both. Smaller images are not
  // enlarged.
  std::optional<int64_t> max_resolution = std::nullopt;
  std::optional<int64_t> min_resolution = std::nullopt;
  int jpeg_quality = 90;  // 1 to 100
  ImageEncoding encoding = ImageEncoding::kSame;
  uint64_t smart_threshold = 0;  // of kSmart, in bytes of pixels after shrinking
  // Of kProportion. What becomes of an image depends on the seed and its bytes alone, so it is the
  // same in any order of records, on any number of threads; images of the same bytes fall alike.
  double compress_probability = 0.5;  // 0 to 1
  uint64_t seed = 0;
  int64_t max_pixels = int64_t{1} << 28;  // a larger image is an error
};

// Shrinks images with area interpolation (ResizeArea), as FFCV's writer does. Pixels are
// decode_image's: alpha is dropped, 16 bits become 8, CMYK and palettes become RGB; EXIF and colour
// profiles are not kept. An image that need not change is not decoded: its bytes pass.
//   INVALID_ARGUMENT  names the first bad option
absl::StatusOr<std::shared_ptr<const readers::ImageCodec>> MakeImageRecoder(
    const ImageRecoderOptions& options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_RECODER_H_
