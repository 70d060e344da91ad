#ifndef MILLRACE_AUGMENT_GEOMETRY_OPS_H_
#define MILLRACE_AUGMENT_GEOMETRY_OPS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

// Ops that move pixels without changing their values. They take any numeric dtype; images and
// errors are those of image_ops.h.

namespace millrace::augment {

struct CenterCropOptions {
  std::string field = "image";
  int64_t height = 0;
  int64_t width = 0;
};
// torchvision's center_crop: the first row is (image - crop) / 2, halves rounded to even, and the
// first column likewise. A smaller image is surrounded by zeros; an odd row or column of them is at
// the bottom or the right.
absl::StatusOr<std::unique_ptr<Op>> MakeCenterCrop(CenterCropOptions options);

struct RandomCropOptions {
  std::string field = "image";
  int64_t height = 0;
  int64_t width = 0;
};
// A region of that size at a random place, all places equally likely. A smaller image is a row
// error (kValue); use pad in front. Draws: Below(H - height + 1) for the top, then
// Below(W - width + 1) for the left.
absl::StatusOr<std::unique_ptr<Op>> MakeRandomCrop(RandomCropOptions options,
                                                   const std::string& stage);

// The pixels around a row a b c d of an image.
enum class PadMode {
  kConstant,   // value value | a b c d | value value
  kEdge,       // a a | a b c d | d d
  kReflect,    // c b | a b c d | c b
  kSymmetric,  // b a | a b c d | d c
};

struct PadOptions {
  std::string field = "image";
  int64_t top = 0;  // pixels to add; 0 to 4096 on each side
  int64_t bottom = 0;
  int64_t left = 0;
  int64_t right = 0;
  PadMode mode = PadMode::kConstant;
  float value = 0;  // value of the pixels of kConstant, converted as by MakeCast
};
// NumPy's pad. An image that is too small for its mode is a row error (kValue): kReflect needs pad
// + 1 pixels, kSymmetric pad pixels and kEdge one pixel along each axis.
absl::StatusOr<std::unique_ptr<Op>> MakePad(PadOptions options);

struct TransposeOptions {
  std::string field = "image";
  std::vector<int64_t> perm = {2, 0, 1};  // extent i of the output is extent perm[i] of the input
};
// NumPy's transpose of a value with perm.size() extents. The default turns [height, width,
// channels] into [channels, height, width].
absl::StatusOr<std::unique_ptr<Op>> MakeTranspose(TransposeOptions options);

struct PadChannelsOptions {
  std::string field = "image";
  int64_t channels = 4;
  float value = 0;  // value of the new channels, converted as by MakeCast
};
// Appends channels of `value` until the image has `channels`.
absl::StatusOr<std::unique_ptr<Op>> MakePadChannels(PadChannelsOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_GEOMETRY_OPS_H_
