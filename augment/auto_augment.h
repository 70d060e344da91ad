#ifndef MILLRACE_AUGMENT_AUTO_AUGMENT_H_
#define MILLRACE_AUGMENT_AUTO_AUGMENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/op.h"

namespace millrace::augment {

enum class AugmentPolicy {
  kRandAugment,     // num_ops transforms of 14, all of one magnitude
  kTrivialAugment,  // one of 14, of any magnitude of the wide space
  kImageNet,        // AutoAugment's 25 pairs for ImageNet
};

struct AutoAugmentOptions {
  std::string field = "image";
  AugmentPolicy policy = AugmentPolicy::kRandAugment;
  int num_ops = 2;              // transforms per image, of kRandAugment; 1 to 16
  int magnitude = 9;            // bin, of kRandAugment; 0 to num_magnitude_bins - 1
  int num_magnitude_bins = 31;  // used by the first two policies; 2 to 1000
  bool bilinear = false;  // true if transforms that move pixels interpolate; false: nearest pixel
  float fill = 0;         // value of pixels that come in at the edges; 0 to 255
};
// torchvision.transforms.v2's RandAugment, TrivialAugmentWide and AutoAugment(IMAGENET): its
// spaces, its order of transforms (Identity, ShearX, ShearY, TranslateX, TranslateY, Rotate,
// Brightness, Color, Contrast, Sharpness, Posterize, Solarize, AutoContrast, Equalize) and its
// pairs. Transforms are those of color_ops.h, and MakeAffine's: shears around the upper left
// corner, Rotate counter-clockwise. uint8, 1 or 3 channels.
// Draws. kRandAugment, num_ops times: Below(14) for the transform, and one NextFloat if its
// magnitude has a sign: below 0.5 it is negative. kTrivialAugment: Below(14),
// Below(num_magnitude_bins) if it has a magnitude, the NextFloat of the sign. kImageNet: Below(25)
// for the pair; for each of the two one NextFloat, and if it is below the transform's probability
// the NextFloat of the sign.
absl::StatusOr<std::unique_ptr<Op>> MakeAutoAugment(AutoAugmentOptions options,
                                                    const std::string& stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_AUTO_AUGMENT_H_
