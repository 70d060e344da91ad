#ifndef MILLRACE_READERS_IMAGE_CODEC_H_
#define MILLRACE_READERS_IMAGE_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::readers {

// An image that was encoded anew.
struct RecodedImage {
  std::string encoded;
  std::string_view format;  // "jpeg", "png", or "raw": rows of bytes, channels side by side
  int64_t height = 0;
  int64_t width = 0;
};

struct GreyImage {
  std::string pixels;  // row by row, a byte each
  int64_t height = 0;
  int64_t width = 0;
};

// Decodes and encodes the pixels of images, which readers cannot; augment/image_recoder.h
// implements it. Immutable, thread-safe. RESOURCE_EXHAUSTED of any of them: there is no memory for
// it, which says nothing about the image.
class ImageCodec {
 public:
  virtual ~ImageCodec() = default;

  // Text that says what Recode does, different for different outcomes. Empty: Recode does nothing
  // and is not called.
  virtual std::string recoding() const = 0;
  // Shrinks or encodes anew.
  //   nullopt           the image stays as it is, byte for byte
  //   DATA_LOSS         it is damaged
  //   INVALID_ARGUMENT  it is no image, of a kind that is not supported, or too large
  virtual absl::StatusOr<std::optional<RecodedImage>> Recode(std::string_view encoded) const = 0;

  // Decodes all pixels and forgets them.
  //   DATA_LOSS         the image is damaged
  //   INVALID_ARGUMENT  it is no image, of a kind that is not supported, or too large
  virtual absl::Status Check(std::string_view encoded) const = 0;

  // Decodes an image that is stored as grey bytes, and turns it upright (readers/exif.h).
  //   DATA_LOSS         it is damaged
  //   INVALID_ARGUMENT  it is of a kind that is not supported, has colours or alpha, or has not 8
  //                     bits to a pixel
  virtual absl::StatusOr<GreyImage> DecodeGrey(std::string_view encoded) const = 0;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_IMAGE_CODEC_H_
