#ifndef MILLRACE_AUGMENT_AUG_MIX_H_
#define MILLRACE_AUGMENT_AUG_MIX_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/op.h"

namespace millrace::augment {

struct AugMixOptions {
  std::string field = "image";
  int severity = 3;       // magnitudes that are drawn from, of ten; 1 to 10
  int mixture_width = 3;  // number of chains; 1 to 16
  int chain_depth = 0;    // transforms per chain, up to 16; 0: a drawn number, 1 to 3
  double alpha = 1;       // parameter of the weights' distributions; 0.001 to 1000
  bool all_ops = true;    // true if Brightness, Color, Contrast and Sharpness are among them
  bool bilinear = true;   // true if transforms that move pixels interpolate; false: nearest pixel
  float fill = 0;         // value of pixels that come in at the edges; 0 to 255
};
// torchvision.transforms.v2's AugMix (Hendrycks et al., ICLR 2020), its space and its order of
// transforms: ShearX, ShearY, TranslateX, TranslateY, Rotate, Posterize, Solarize, AutoContrast,
// Equalize, Brightness, Color, Contrast, Sharpness; they are those of MakeAutoAugment. The image
// times m, plus each chain's image times (1 - m) w, in float32 in that order, m and (1 - m) w
// rounded to float32 before; results lose their fraction. uint8, 1 or 3 channels.
// Draws: m by DrawSymmetricBeta (batch_mixing.h); DrawLogGamma per chain, w being their weights in
// the sum of all; then per chain Below(3) for its depth - 1 unless chain_depth gives it, and per
// transform Below(13), or Below(9) without all_ops, then Below(severity) if it has a magnitude and
// one NextFloat if the magnitude has a sign, which is negative below 0.5.
absl::StatusOr<std::unique_ptr<Op>> MakeAugMix(AugMixOptions options, const std::string& stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_AUG_MIX_H_
