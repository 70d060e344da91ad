#ifndef MILLRACE_AUGMENT_AUG_MIX_H_
#define MILLRACE_AUGMENT_AUG_MIX_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/op.h"

namespace millrace::augment {

struct AugMixOptions {
  std::string field = "image";
  int severity = 3;       // 1 to 10: magnitudes are the first so many of ten
  int mixture_width = 3;  // chains; 1 to 16
  int chain_depth = 0;    // transforms of a chain, up to 16; 0: 1 to 3, drawn
  double alpha = 1;       // of the weights' distributions; 0.001 to 1000
  bool all_ops = true;    // Brightness, Color, Contrast and Sharpness too
  bool bilinear = true;   // of transforms that move pixels
  float fill = 0;         // what comes in at the edges; 0 to 255
};
// torchvision.transforms.v2's AugMix (Hendrycks et al., ICLR 2020), its space and its order of
// transforms: ShearX, ShearY, TranslateX, TranslateY, Rotate, Posterize, Solarize, AutoContrast,
// Equalize, Brightness, Color, Contrast, Sharpness; they are those of MakeAutoAugment. The image
// times m, plus each chain's image times (1 - m) w, in float32 in that order, m and (1 - m) w
// rounded to float32 before; results lose their fraction. uint8, 1 or 3 channels.
// Draws: m by DrawSymmetricBeta (mixing.h); DrawLogGamma per chain, w being their shares in the sum
// of all; then per chain Below(3) for its depth - 1 unless chain_depth says it, and per transform
// Below(13), or Below(9) without all_ops, Below(severity) if it has a magnitude and one NextFloat
// if that has a sign: below 0.5 it is negative.
absl::StatusOr<std::unique_ptr<Op>> MakeAugMix(AugMixOptions options, const std::string& stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_AUG_MIX_H_
