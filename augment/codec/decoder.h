#ifndef MILLRACE_AUGMENT_CODEC_DECODER_H_
#define MILLRACE_AUGMENT_CODEC_DECODER_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "augment/image/region.h"
#include "augment/image_ops.h"
#include "base/run.h"
#include "readers/image_header.h"

namespace millrace::augment {

// Pixels of a decoded region. Borrows from the arena it was decoded into; at least kPixelsSlack
// bytes behind the last pixel may be read.
inline constexpr int64_t kPixelsSlack = 16;
struct Pixels {
  const uint8_t* data = nullptr;
  int64_t stride = 0;  // elements from a row to the next
};

// Decodes one encoded image, once: exactly one Decode call. Thread-compatible. Pixels come out
// uint8, grey (1) or RGB (3), by one rule per format:
//   JPEG  libjpeg's default (accurate) inverse transform and smooth chroma upsampling, which are
//         djpeg's. CMYK becomes RGB as channel * black / 255, rounded.
//   PNG   alpha is dropped, 16-bit samples keep their high byte, palettes are looked up, gamma and
//         transparency chunks are ignored.
//   Grey from colour is (19595 R + 38470 G + 7471 B + 32768) >> 16.
class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;

  const readers::ImageHeader& info() const { return info_; }

  // Checks the header before memory of the image's size is taken.
  //   DATA_LOSS         the file cannot hold so many pixels (kImage)
  //   INVALID_ARGUMENT  the image is of a refused kind (kImage)
  virtual absl::Status CheckHeader() const { return absl::OkStatus(); }

  // Writes all pixels to `out`, info().height * info().width * channels bytes, dense.
  //   DATA_LOSS           the image is damaged (kImage)
  //   INVALID_ARGUMENT    the image is of a refused kind, or above a limit (kImage)
  //   RESOURCE_EXHAUSTED  there is no memory for the decoder
  virtual absl::Status DecodeAll(int channels, RunArena& arena, uint8_t* out) = 0;

  // Decodes the pixels inside `region` with the bits of DecodeAll. Damage outside of the region may
  // go unseen. REQUIRES: the region is not empty and lies inside the image.
  virtual absl::StatusOr<Pixels> DecodeRegion(const Region& region, int channels,
                                              RunArena& arena) = 0;

  // DecodeRegion of the image at 1/`denominator` of its size (2, 4 or 8), if the format can do
  // that: `*scaled` is then the smallest region of the small image that holds `region`. Otherwise
  // the same as DecodeRegion, and `*scaled` is `region`.
  virtual absl::StatusOr<Pixels> DecodeScaled(const Region& region, int denominator, int channels,
                                              RunArena& arena, Region* scaled) {
    static_cast<void>(denominator);
    *scaled = region;
    return DecodeRegion(region, channels, arena);
  }

 protected:
  readers::ImageHeader info_;
};

// Opens a decoder on `encoded`, which must outlive it, and reads its header. The format is found
// from the first bytes. The options' field names and channels are not used.
//   INVALID_ARGUMENT  not a JPEG or PNG, or it has more than `max_pixels` (kImage)
//   DATA_LOSS         its header is damaged (kImage)
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenImage(std::string_view encoded,
                                                        const DecodeImageOptions& options);
inline absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenImage(std::string_view encoded,
                                                               int64_t max_pixels) {
  return OpenImage(encoded, DecodeImageOptions{.max_pixels = max_pixels});
}
// JPEGs of the common kinds are decoded by jpeg::RegionDecoder. libjpeg-turbo decodes all others,
// and those in which the former finds something wrong.
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenJpeg(std::string_view encoded,
                                                       const DecodeImageOptions& options = {});
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenLibjpeg(std::string_view encoded,
                                                          const DecodeImageOptions& options = {});
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenPng(std::string_view encoded,
                                                      const DecodeImageOptions& options = {});

// True if jpeg::RegionDecoder gives a JPEG's pixels and verdict under these options; otherwise
// libjpeg-turbo decodes it.
inline bool MayUseRegionDecoder(const DecodeImageOptions& options) {
  return !options.fast_dct && options.fancy_upsampling && !options.verify_full;
}

// Returns a decoder of the upright image, which is `decoder`'s turned by `orientation` (2 to 8).
std::unique_ptr<ImageDecoder> MakeUpright(std::unique_ptr<ImageDecoder> decoder, int orientation);

// Returns libjpeg's luma of one colour.
inline uint8_t Luma(uint32_t red, uint32_t green, uint32_t blue) {
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_CODEC_DECODER_H_
