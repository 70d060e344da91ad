#ifndef MILLRACE_AUGMENT_POLICY_AUTO_AUGMENT_H_
#define MILLRACE_AUGMENT_POLICY_AUTO_AUGMENT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "augment/aug_mix.h"
#include "augment/auto_augment.h"
#include "augment/color/color.h"
#include "base/philox.h"

// The draws of MakeAutoAugment's and MakeAugMix's ops, and the transforms.

namespace millrace::augment {

// In torchvision's order; kInvert is AutoAugment's alone.
enum class Transform {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert,
};
inline constexpr uint64_t kNumTransforms = 14;  // without kInvert

struct DrawnTransform {
  Transform transform = Transform::kIdentity;
  double magnitude = 0;  // with its sign

  friend bool operator==(const DrawnTransform&, const DrawnTransform&) = default;
};
using DrawnTransforms = absl::InlinedVector<DrawnTransform, 4>;

// Draws the transforms of an image, in the order in which they are applied. `options` are valid.
DrawnTransforms DrawTransforms(const AutoAugmentOptions& options, int64_t height, int64_t width,
                               RandomStream& random);

// Draws one chain of AugMix.
DrawnTransforms DrawChain(const AugMixOptions& options, int64_t height, int64_t width,
                          RandomStream& random);

// Writes the transformed image to `out`, other memory.
void ApplyTransform(const DrawnTransform& drawn, const ColorImage& in, bool bilinear, uint8_t fill,
                    uint8_t* out);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_POLICY_AUTO_AUGMENT_H_
