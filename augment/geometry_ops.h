#ifndef MILLRACE_AUGMENT_GEOMETRY_OPS_H_
#define MILLRACE_AUGMENT_GEOMETRY_OPS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

// Ops that move pixels and change none: any numeric dtype. Images and errors are those of
// image_ops.h.

namespace millrace::augment {

struct CenterCropOptions {
  std::string field = "image";
  int64_t height = 0;
  int64_t width = 0;
};
// torchvision's center_crop: the first row is (image - crop) / 2, a half rounded to the even
// number, and so is the first column. An image that is smaller stands in the middle of zeros, the
// odd one of them at the bottom or the right.
absl::StatusOr<std::unique_ptr<Op>> MakeCenterCrop(CenterCropOptions options);

struct RandomCropOptions {
  std::string field = "image";
  int64_t height = 0;
  int64_t width = 0;
};
// A region of that size, every place as likely. Draws: Below(H - height + 1) for the top, then
// Below(W - width + 1) for the left. An image that is smaller is kValue; `pad` stands before it.
absl::StatusOr<std::unique_ptr<Op>> MakeRandomCrop(RandomCropOptions options,
                                                   const std::string& stage);

// What lies around an image abcd.
enum class PadMode {
  kConstant,   // value value | a b c d | value value
  kEdge,       // a a | a b c d | d d
  kReflect,    // c b | a b c d | c b
  kSymmetric,  // b a | a b c d | d c
};

struct PadOptions {
  std::string field = "image";
  int64_t top = 0;  // pixels; 0 to 4096, as the others
  int64_t bottom = 0;
  int64_t left = 0;
  int64_t right = 0;
  PadMode mode = PadMode::kConstant;
  float value = 0;  // of kConstant, converted as MakeCast's
};
// NumPy's pad. An image too small for one reflection (kReflect: fewer than pad + 1 pixels,
// kSymmetric: than pad, kEdge: none) is kValue.
absl::StatusOr<std::unique_ptr<Op>> MakePad(PadOptions options);

struct TransposeOptions {
  std::string field = "image";
  std::vector<int64_t> perm = {2, 0, 1};  // extent i of the output is extent perm[i] of the input
};
// NumPy's transpose of a value of as many extents; by default [height, width, channels] becomes
// [channels, height, width].
absl::StatusOr<std::unique_ptr<Op>> MakeTranspose(TransposeOptions options);

struct PadChannelsOptions {
  std::string field = "image";
  int64_t channels = 4;
  float value = 0;  // of the new channels, converted as MakeCast's
};
// Appends channels of `value` until there are `channels`.
absl::StatusOr<std::unique_ptr<Op>> MakePadChannels(PadChannelsOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_GEOMETRY_OPS_H_
