#ifndef MILLRACE_AUGMENT_IMAGE_OPS_H_
#define MILLRACE_AUGMENT_IMAGE_OPS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

// One-to-one ops over image and label fields. Images are [height, width, channels], interleaved.
// `stage` is the stage's name, the identity of its random draws. Row errors are INVALID_ARGUMENT
// with RecordErrorReason kImage or kValue.

namespace millrace::augment {

struct DecodeImageOptions {
  std::string field = "image/encoded";  // kBytes; consumed if `output` is another name
  std::string output = "image";
  int channels = 3;  // 1 (grey) or 3 (RGB)
  // True if the image is turned as its Exif data say (readers/exif.h); crops then work on the
  // upright image.
  bool apply_exif_orientation = false;

  // Limits per file; a file above one is INVALID_ARGUMENT.
  int64_t max_pixels = int64_t{1} << 28;  // checked before anything is allocated
  int max_scans = 100;                    // most scans of a JPEG
  // Size of the coefficients of a JPEG with several scans, and of a PNG's inflated chunks without
  // pixels.
  int64_t max_memory_bytes = int64_t{1} << 31;

  // True if the file is read up to its end mark even where a part would do, to find all damage.
  bool verify_full = false;
  // True if a damaged image with a whole header is taken. JPEG: libjpeg-turbo's pixels; where data
  // are missing they are grey or left over from before. PNG: missing rows are black, but at least
  // one row must be there.
  bool allow_truncated = false;

  // JPEG only. Each of these, if it differs from its default, gives up exact pixels for speed.
  bool fast_dct = false;         // true if the inverse transform is the faster, less accurate one
  bool fancy_upsampling = true;  // true if chroma is smoothed; false: its samples are repeated
  // True if images are decoded at a half, a quarter or an eighth of the size, with the region's
  // edges rounded outwards, where random_resized_crop or resize follows directly and its region is
  // at least twice, four or eight times the output in both extents.
  bool dct_downscale = false;
};
// Decodes JPEG (with libjpeg-turbo's pixels and errors) or PNG (libspng); the first bytes tell
// which. The output is uint8 [height, width, channels] of unknown size. PNG: alpha is dropped,
// 16-bit samples keep their high byte, palettes are looked up. CMYK and YCCK JPEGs become RGB. Grey
// from colour is libjpeg's luma. ICC profiles and gamma are ignored. Arithmetic-coded JPEGs are
// refused.
//   row error DATA_LOSS         the file is damaged; a warning of the decoder counts as damage, so
//                               invented pixels are never handed on without allow_truncated
//   row error INVALID_ARGUMENT  no image, a kind that is refused, or above a limit
//   INVALID_ARGUMENT            a bad option, or dct_downscale, which only MakeDecodeCrop
//                               (decode_crop.h) takes
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImage(DecodeImageOptions options);

struct PeekImageShapeOptions {
  std::string field = "image/encoded";  // kBytes
  std::string output = "image/shape";
  bool apply_exif_orientation = false;  // true if the shape is that of the upright image
};
// Adds height, width and channels of an encoded image as int64 [3] without decoding pixels.
// Channels are those stored: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha or CMYK.
absl::StatusOr<std::unique_ptr<Op>> MakePeekImageShape(PeekImageShapeOptions options);

enum class ResizeMethod { kBilinear, kNearest, kBicubic, kArea };

inline constexpr int kMaxCropAttempts = 1000;

struct RandomResizedCropOptions {
  std::string field = "image";
  int64_t height = 224;
  int64_t width = 224;
  std::array<float, 2> area = {0.08f, 1.0f};           // fraction of the image's area
  std::array<float, 2> aspect = {3.0f / 4, 4.0f / 3};  // width / height, log-uniform
  ResizeMethod interpolation = ResizeMethod::kBilinear;
  bool antialias = false;  // true if kBilinear and kBicubic antialias, as by default in torchvision
  int max_attempts = 10;   // 1 to kMaxCropAttempts; torchvision's 10, tf.image's default is 100
};
// torchvision's RandomResizedCrop: `max_attempts` tries, then the largest central crop of
// admissible aspect; then a resize as MakeResize's. dtype (uint8 or float32) is kept. A region of
// more than 65536 pixels a side is kValue with kBicubic, kArea or antialias, and so is an image of
// 2^31 values a row. Draws, per try: NextDouble for the area, NextDouble for the logarithm of the
// aspect, both linear in their range; a try whose rounded extents fit ends with Below(H - h + 1)
// for the top and Below(W - w + 1) for the left. Extents round half to even.
absl::StatusOr<std::unique_ptr<Op>> MakeRandomResizedCrop(RandomResizedCropOptions options,
                                                          const std::string& stage);

struct ResizeOptions {
  std::string field = "image";
  int64_t height = 0;
  int64_t width = 0;
  // The shorter side's extent, instead of both; the longer becomes floor(shorter * long / short).
  int64_t shorter = 0;
  ResizeMethod method = ResizeMethod::kBilinear;
  bool antialias = false;                     // true if kBilinear and kBicubic antialias
  std::optional<DType> dtype = std::nullopt;  // dtype of the output: kU8 or kF32; none: the input's
};
// Centres are half-pixel ones. Per axis and without antialias position = (i + 0.5) * (in / out) -
// 0.5 in float32, and weight = position - floor(position). Input uint8 or float32, for kNearest
// without `dtype` any numeric dtype.
//   kBilinear, kBicubic, kArea   tf.image.resize's default; PyTorch's interpolate; OpenCV's
//                                INTER_AREA, which may enlarge here as in tf.image.resize
//   kNearest                     pixel floor((2i + 1) * in / (2 * out)): Pillow's, "nearest-exact"
//   antialias                    Pillow's: torchvision's on PIL images
// In float32:
//   kBilinear  floor(position) and the next, clamped to the image; first rows,
//              top + (bottom - top) * weight, then columns, left + (right - left) * weight
//   kBicubic   Keys' kernel with a = -0.75 over four pixels, clamped to the image; first rows, then
//              columns, products added up from the first to the last
//   kArea      the mean of the input under a pixel, weighted by area; uint8 in integers and
//              rounded half up, float32 in double
//   antialias  the triangle or Keys' kernel with a = -0.5, as wide as an output pixel where that is
//              the larger; first columns, then rows, an axis of equal extents not at all. uint8:
//              weights are rounded to 22 bits and so is each of the two passes, half up, to uint8;
//              float32: weights and sums in double, each pass rounded to float32
// uint8 without antialias rounds the result half to even and saturates. With dtype kF32 a uint8
// image is converted first; with kU8 a float32 image's result is rounded half to even and
// saturates. kBicubic, kArea and antialias take images of at most 65536 pixels a side, and every
// method those of fewer than 2^31 values a row; with `shorter` neither is the
// longer side made larger than that: kValue.
absl::StatusOr<std::unique_ptr<Op>> MakeResize(ResizeOptions options);

struct FlipOptions {
  std::string field = "image";
  float probability = 0.5f;  // 1 flips always
  bool vertical = false;     // true if top and bottom change places instead of left and right
};
// Any numeric dtype. Draws: one NextFloat; flips when it is below `probability`.
absl::StatusOr<std::unique_ptr<Op>> MakeFlip(FlipOptions options, const std::string& stage);

struct NormalizeOptions {
  std::string field = "image";
  std::vector<float> mean;    // one per channel, in units of the input
  std::vector<float> stddev;  // one per channel, > 0
};
// (x - mean) / stddev as x * (1/stddev) - mean * (1/stddev) in float32, both factors rounded once.
// Input uint8 or float32 of as many channels, output float32.
absl::StatusOr<std::unique_ptr<Op>> MakeNormalize(NormalizeOptions options);

struct CastOptions {
  std::string field;
  DType dtype = DType::kF32;
  float scale = 1.0f;  // multiplies in float32 before the conversion
};
// Numeric to numeric; float to integer rounds half to even and saturates, NaN gives 0. With scale 1
// nothing goes through float32: integers saturate exactly. float16 and bfloat16 round to even.
absl::StatusOr<std::unique_ptr<Op>> MakeCast(CastOptions options);

struct OneHotOptions {
  std::string field = "label";  // int64 or int32 scalar
  int64_t depth = 0;
};
// Output float32 [depth]; a label outside [0, depth) is kValue.
absl::StatusOr<std::unique_ptr<Op>> MakeOneHot(OneHotOptions options);

struct LabelSmoothingOptions {
  std::string field = "label";  // float32 [classes], as one_hot makes it
  float smoothing = 0.1f;       // 0 to 1
};
// y * (1 - smoothing) + smoothing / classes, in float32.
absl::StatusOr<std::unique_ptr<Op>> MakeLabelSmoothing(LabelSmoothingOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_OPS_H_
