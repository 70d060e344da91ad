#ifndef MILLRACE_AUGMENT_POLICY_AUTO_AUGMENT_H_
#define MILLRACE_AUGMENT_POLICY_AUTO_AUGMENT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "augment/aug_mix.h"
#include "augment/auto_augment.h"
#include "augment/color/color.h"
#include "base/philox.h"
#include "base/schema.h"

// What MakeAutoAugment and MakeAugMix draw, and what a transform does.

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

// The transforms of an image, in the order in which they are applied. `options` are valid.
DrawnTransforms DrawTransforms(const AutoAugmentOptions& options, int64_t height, int64_t width,
                               RandomStream& random);

// One chain of AugMix.
DrawnTransforms DrawChain(const AugMixOptions& options, int64_t height, int64_t width,
                          RandomStream& random);

// `out` is other memory.
void ApplyTransform(const DrawnTransform& drawn, const ColorImage& in, bool bilinear, uint8_t fill,
                    uint8_t* out);

// What both ops ask of their field, and leave as it is: uint8 [height, width, 1 or 3].
absl::StatusOr<Schema> ResolvePolicy(const Schema& input, const std::string& field_name,
                                     std::string_view op);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_POLICY_AUTO_AUGMENT_H_
