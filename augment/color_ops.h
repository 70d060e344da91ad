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

// What `factor` is, and what becomes of a value v; grey is floor(0.2989 r + 0.587 g + 0.114 b), or
// the value of the one channel. All in float32, in the order in which it stands here; results are
// cut off at 0 and 255 and lose their fraction unless it says otherwise.
enum class ColorOp {
  kBrightness,  // v * factor
  kContrast,    // v * factor + mean * (1 - factor); mean: of the image's greys, rounded once
  kSaturation,  // v * factor + grey * (1 - factor); one channel stays as it is
  // HSV's hue plus factor, of 1 for the whole circle; v / 255 there, v * 255.999 back; one channel
  // stays as it is.
  kHue,
  // v + (b - v) * (1 - factor), where b is (8 neighbours + 5 v) / 13, rounded; v at the image's
  // edge.
  kSharpness,
  kGrayscale,     // grey in all channels
  kInvert,        // 255 - v
  kPosterize,     // the upper `factor` bits
  kSolarize,      // 255 - v where v >= factor
  kEqualize,      // per channel: Pillow's ImageOps.equalize
  kAutocontrast,  // per channel: (v - min) / ((max - min) / 255); a flat channel stays as it is
  // Means weighted by exp(-d^2 / (2 factor^2)), d pixels away, over kernel_size rows and then as
  // many columns, the image reflected at its edges (PadMode::kReflect); rounded half to even. An
  // image with no more than kernel_size / 2 pixels on a side is kValue.
  kGaussianBlur,
};

// "brightness", ...
std::string_view NameOf(ColorOp op);
// The least and the largest factor; both 0 for an op that takes none.
std::array<float, 2> FactorLimits(ColorOp op);

struct ColorOptions {
  ColorOp op = ColorOp::kBrightness;
  std::string field = "image";
  float probability = 1;                 // otherwise the image stays as it is
  std::array<float, 2> factor = {1, 1};  // drawn from this range; kPosterize: two equal integers
  int64_t kernel_size = 0;               // of kGaussianBlur: odd, up to 127
};
// Draws: one NextFloat, and if it is below `probability` one NextDouble for the factor, linear in
// its range, for every op but those that take none.
absl::StatusOr<std::unique_ptr<Op>> MakeColor(ColorOptions options, const std::string& stage);

struct ColorJitterOptions {
  std::string field = "image";
  float brightness = 0;  // factor in [max(0, 1 - brightness), 1 + brightness]; so are the next two
  float contrast = 0;    // below 100, as the other two; 0: not at all
  float saturation = 0;
  float hue = 0;          // factor in [-hue, hue]; at most 0.5
  float probability = 1;  // otherwise the image stays as it is
};
// torchvision's ColorJitter: those of the four that are not 0, in random order.
// Draws: one NextFloat; if it is below `probability`, the order of the four, by Below(4), Below(3),
// Below(2) that swap the last of (brightness, contrast, saturation, hue), the one before it and the
// one before that with the place they say; then one NextDouble per factor, in the order of the
// list.
absl::StatusOr<std::unique_ptr<Op>> MakeColorJitter(ColorJitterOptions options,
                                                    const std::string& stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_COLOR_OPS_H_
