#ifndef MILLRACE_AUGMENT_DISTORT_OPS_H_
#define MILLRACE_AUGMENT_DISTORT_OPS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/op.h"

// Ops that turn and shift an image, or blot out a part of it, and keep its shape. Images and errors
// are those of image_ops.h.

namespace millrace::augment {

struct AffineOptions {
  std::string field = "image";
  std::array<float, 2> degrees = {0, 0};    // clockwise; a range to draw from, as those below
  std::array<float, 2> translate = {0, 0};  // largest shift, in fractions of width and height
  std::array<float, 2> scale = {1, 1};      // 0.01 to 100
  std::array<float, 2> shear_x = {0, 0};    // degrees, -89 to 89
  std::array<float, 2> shear_y = {0, 0};
  bool bilinear = false;  // true if pixels are interpolated; false: the nearest pixel
  float fill = 0;         // value of pixels that the image does not cover, 0 to 255
  float probability = 1;  // probability that an image is changed
};
// torchvision's RandomAffine on PIL images, around the middle, by Pillow's arithmetic to the bit:
// nearest in fixed point of 16 bits; bilinear in double, neighbours clamped to the image, fraction
// cut off; a pixel whose centre comes from beyond the image is `fill`. Sines, cosines and tangents
// are rounded to float32 first, so that no library's last bit shows. uint8.
// Draws: one NextFloat; if it is below `probability` one NextDouble each for degrees, shift in x,
// shift in y (rounded half to even to pixels), scale, shear_x, shear_y, linear in their ranges.
absl::StatusOr<std::unique_ptr<Op>> MakeAffine(AffineOptions options, const std::string& stage);

struct RandomErasingOptions {
  std::string field = "image";
  float probability = 0.5f;
  std::array<float, 2> area = {0.02f, 0.33f};  // fraction of the image's area
  std::array<float, 2> aspect = {0.3f, 3.3f};  // height / width, log-uniform
  float value = 0;                             // value of the rectangle, converted as by MakeCast
};
// torchvision's RandomErasing with a constant: ten tries for a rectangle that is smaller than the
// image in both extents; an image without one stays as it is. Any numeric dtype.
// Draws: one NextFloat; if it is below `probability`, per try NextDouble for the area and
// NextDouble for the logarithm of the aspect, both linear in their range; a try whose extents,
// rounded half to even, fit ends with Below(H - h + 1) for the top and Below(W - w + 1) for the
// left.
absl::StatusOr<std::unique_ptr<Op>> MakeRandomErasing(RandomErasingOptions options,
                                                      const std::string& stage);

struct CutoutOptions {
  std::string field = "image";
  int64_t size = 0;       // pixels; 1 to 65536
  float probability = 1;  // probability that an image is changed
  float value = 0;        // value of the square, converted as by MakeCast
};
// DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout"
// (2017): rows and columns [c - size / 2, c - size / 2 + size) of a centre anywhere in the image,
// as far as they lie in it. Any numeric dtype.
// Draws: one NextFloat; if it is below `probability` Below(H) and Below(W) for the centre.
absl::StatusOr<std::unique_ptr<Op>> MakeCutout(CutoutOptions options, const std::string& stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_DISTORT_OPS_H_
