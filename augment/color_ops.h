#ifndef MILLRACE_AUGMENT_COLOR_OPS_H_
#define MILLRACE_AUGMENT_COLOR_OPS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/op.h"

// Ops that change the colours of uint8 images of 1 or 3 (RGB) channels and keep their shape: the
// formulas of torchvision.transforms.v2.functional for uint8 tensors. Errors are those of
// image_ops.h.

namespace millrace::augment {

// The new value of a value v. Grey is floor(0.2989 r + 0.587 g + 0.114 b), or the value of the one
// channel. Formulas are computed in float32 in the order in which they are written here; results
// are clamped to [0, 255] and lose their fraction unless stated otherwise.
enum class ColorOp {
  kBrightness,  // v * factor
  kContrast,    // v * factor + mean * (1 - factor); mean: of the image's greys, rounded once
  kSaturation,  // v * factor + grey * (1 - factor); one channel stays as it is
  // HSV's hue plus factor, where 1 is the whole circle; v / 255 on the way there, v * 255.999 on
  // the way back; one channel stays as it is.
  kHue,
  // v + (b - v) * (1 - factor), where b is (8 neighbours + 5 v) / 13, rounded; v at the image's
  // edge.
  kSharpness,
  kGrayscale,     // grey in all channels
  kInvert,        // 255 - v
  kPosterize,     // the upper `factor` bits of v
  kSolarize,      // 255 - v where v >= factor
  kEqualize,      // per channel: Pillow's ImageOps.equalize
  kAutocontrast,  // per channel: (v - min) / ((max - min) / 255); a flat channel stays as it is
  // Means weighted by exp(-d^2 / (2 factor^2)), d pixels away, over kernel_size rows and then as
  // many columns, the image reflected at its edges (PadMode::kReflect); rounded half to even. An
  // image with no more than kernel_size / 2 pixels on a side is kValue.
  kGaussianBlur,
};

// Returns "brightness", ...
std::string_view NameOf(ColorOp op);
// Returns the least and the largest factor of an op; both 0 if it takes none.
std::array<float, 2> FactorLimits(ColorOp op);

struct ColorOptions {
  ColorOp op = ColorOp::kBrightness;
  std::string field = "image";
  float probability = 1;                 // probability that an image is changed
  std::array<float, 2> factor = {1, 1};  // range to draw from; kPosterize: two equal integers
  int64_t kernel_size = 0;               // rows and columns of kGaussianBlur: odd, up to 127
};
// Draws: one NextFloat; if it is below `probability` and the op takes a factor, one NextDouble for
// the factor, linear in its range.
absl::StatusOr<std::unique_ptr<Op>> MakeColor(ColorOptions options, const std::string& stage);

struct ColorJitterOptions {
  std::string field = "image";
  float brightness = 0;  // factor in [max(0, 1 - brightness), 1 + brightness]; 0: unchanged
  float contrast = 0;    // as brightness; all three are below 100
  float saturation = 0;
  float hue = 0;          // factor in [-hue, hue]; at most 0.5
  float probability = 1;  // probability that an image is changed
};
// torchvision's ColorJitter: the ops of the four options that are not 0, in random order.
// Draws: one NextFloat; if it is below `probability`, the order of the list (brightness, contrast,
// saturation, hue): Below(4), Below(3) and Below(2) name the places with which its last element,
// the one before and the one before that are swapped; then one NextDouble per factor, in the
// list's first order.
absl::StatusOr<std::unique_ptr<Op>> MakeColorJitter(ColorJitterOptions options,
                                                    const std::string& stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_COLOR_OPS_H_
