#ifndef MILLRACE_AUGMENT_IMAGE_OPS_H_
#define MILLRACE_AUGMENT_IMAGE_OPS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

// One-to-one ops over image and label fields. Images are [height, width, channels], interleaved.
// `stage` is the stage's name: the identity of its random draws. Row errors: INVALID_ARGUMENT with
// RecordErrorReason kImage or kValue.

namespace millrace::augment {

struct DecodeImageOptions {
  std::string field = "image/encoded";  // kBytes, consumed when `output` is another name
  std::string output = "image";
  int channels = 3;  // 1 (grey) or 3 (RGB)
  int64_t max_pixels =
      int64_t{1} << 28;  // a larger image is an error, found before anything is allocated
};
// JPEG (libjpeg-turbo) or PNG (libspng), told by the bytes. Output uint8 [height, width, channels],
// sizes unknown.
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImage(DecodeImageOptions options);

struct RandomResizedCropOptions {
  std::string field = "image";
  int64_t height = 224;
  int64_t width = 224;
  std::array<float, 2> area = {0.08f, 1.0f};           // share of the image's area
  std::array<float, 2> aspect = {3.0f / 4, 4.0f / 3};  // width / height, log-uniform
};
// torchvision's RandomResizedCrop: ten tries, then the largest central crop of admissible aspect;
// then bilinear resize (half-pixel centres, no antialias). dtype is kept.
absl::StatusOr<std::unique_ptr<Op>> MakeRandomResizedCrop(RandomResizedCropOptions options,
                                                          const std::string& stage);

// Both at once: decode_image, then random_resized_crop of its output, bit for bit, but only the
// region that the crop keeps is made. `stage` is the crop's. REQUIRES: crop.field == decode.output.
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeRandomResizedCrop(DecodeImageOptions decode,
                                                                RandomResizedCropOptions crop,
                                                                const std::string& stage);

struct ResizeOptions {
  std::string field = "image";
  int64_t height = 0;
  int64_t width = 0;
};
// Bilinear, half-pixel centres, no antialias; dtype is kept (uint8 rounds half to even).
absl::StatusOr<std::unique_ptr<Op>> MakeResize(ResizeOptions options);

struct FlipOptions {
  std::string field = "image";
  float probability = 0.5f;  // of a left-right flip; 1 flips always
};
absl::StatusOr<std::unique_ptr<Op>> MakeFlip(FlipOptions options, const std::string& stage);

struct NormalizeOptions {
  std::string field = "image";
  std::vector<float> mean;    // one per channel, in units of the input
  std::vector<float> stddev;  // one per channel, > 0
};
// (x - mean) / stddev as x * (1/stddev) - mean * (1/stddev) in float32, both factors rounded once.
// Output float32.
absl::StatusOr<std::unique_ptr<Op>> MakeNormalize(NormalizeOptions options);

struct CastOptions {
  std::string field;
  DType dtype = DType::kF32;
  float scale = 1.0f;  // multiplies in float32 before the conversion
};
// Numeric to numeric; float to integer rounds half to even and saturates, NaN gives 0.
absl::StatusOr<std::unique_ptr<Op>> MakeCast(CastOptions options);

struct OneHotOptions {
  std::string field = "label";  // int64 or int32 scalar
  int64_t depth = 0;
};
// Output float32 [depth]; a label outside [0, depth) is kValue.
absl::StatusOr<std::unique_ptr<Op>> MakeOneHot(OneHotOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_OPS_H_
