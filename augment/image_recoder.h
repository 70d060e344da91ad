#ifndef MILLRACE_AUGMENT_IMAGE_RECODER_H_
#define MILLRACE_AUGMENT_IMAGE_RECODER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "readers/image_codec.h"

namespace millrace::augment {

// The encoding of recoded images.
enum class ImageEncoding {
  kSame,  // the format that they had, if they are shrunk
  kJpeg,  // as JPEG; a JPEG that is not shrunk stays as it is
  kRaw,   // all as raw pixels: rows of grey or RGB bytes
  // FFCV's write modes. "Stored" is a PNG with uncompressed pixels: decode_image reads it without
  // loss, nearly as fast as a copy, and stored images of any size may be mixed with JPEGs.
  kStored,      // all stored
  kSmart,       // JPEG if the pixels take more than smart_threshold bytes, else stored
  kProportion,  // JPEG with probability compress_probability, else stored
};

struct ImageRecoderOptions {
  // The most pixels of the longer side, or of the shorter side, to which images are shrunk; not
  // both. The other side keeps the shape, rounded down, at least 1. No image is enlarged.
  std::optional<int64_t> max_resolution = std::nullopt;
  std::optional<int64_t> min_resolution = std::nullopt;
  int jpeg_quality = 90;  // 1 to 100
  // True to turn images as their Exif orientation says; they have none then. An image that must be
  // turned is encoded anew, in the format that it had where `encoding` says nothing else.
  bool upright = false;
  ImageEncoding encoding = ImageEncoding::kSame;
  uint64_t smart_threshold = 0;  // limit of kSmart, in bytes of pixels after shrinking
  // The probability of kProportion. The choice for an image depends only on the seed and its bytes,
  // so it is the same in any order of records and on any number of threads, and equal images are
  // treated alike.
  double compress_probability = 0.5;  // 0 to 1
  uint64_t seed = 0;
  int64_t max_pixels = int64_t{1} << 28;  // a larger image is an error
};

// Shrinks images with area interpolation (ResizeArea), as FFCV's writer does. Pixels are
// decode_image's: alpha is dropped, 16 bits become 8, CMYK and palettes become RGB; colour profiles
// are not kept, and of Exif data the orientation alone is. Raw pixels and those of DecodeGrey,
// which can hold none, stand upright. The bytes of an image that need not change are passed on.
//   INVALID_ARGUMENT  names the first bad option
absl::StatusOr<std::shared_ptr<const readers::ImageCodec>> MakeImageRecoder(
    const ImageRecoderOptions& options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_RECODER_H_
