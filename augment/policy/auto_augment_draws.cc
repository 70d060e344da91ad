#include <array>
#include <cmath>

#include "augment/policy/auto_augment.h"

// The spaces of magnitudes, the order of AugMix and the pairs of AutoAugment, as torchvision has
// them (torchvision/transforms/v2/_auto_augment.py).

namespace millrace::augment {
namespace {

// The numbers in which the policies' spaces differ.
struct Space {
  double shear;
  double translate_x;  // pixels
  double translate_y;
  double degrees;
  double color;
  double bits;  // of kPosterize
  double lost_bits;
  int bins;
};

Space SpaceOf(const AutoAugmentOptions& options, int64_t height, int64_t width) {
  if (options.policy == AugmentPolicy::kTrivialAugment) {
    return {0.99, 32, 32, 135, 0.99, 8, 6, options.num_magnitude_bins};
  }
  constexpr int kImageNetBins = 10;
  constexpr double kShift = 150.0 / 331.0;
  const bool image_net = options.policy == AugmentPolicy::kImageNet;
  return {0.3,
          kShift * static_cast<double>(width),
          kShift * static_cast<double>(height),
          30,
          0.9,
          8,
          4,
          image_net ? kImageNetBins : options.num_magnitude_bins};
}

bool HasSign(Transform transform) {
  return transform >= Transform::kShearX && transform <= Transform::kSharpness;
}

bool HasMagnitude(Transform transform) {
  return transform != Transform::kIdentity && transform <= Transform::kSolarize;
}

double MagnitudeOf(const Space& space, Transform transform, int bin) {
  const double strength = static_cast<double>(bin) / (space.bins - 1);
  switch (transform) {
    case Transform::kShearX:
    case Transform::kShearY:
      return space.shear * strength;
    case Transform::kTranslateX:
      return space.translate_x * strength;
    case Transform::kTranslateY:
      return space.translate_y * strength;
    case Transform::kRotate:
      return space.degrees * strength;
    case Transform::kBrightness:
    case Transform::kColor:
    case Transform::kContrast:
    case Transform::kSharpness:
      return space.color * strength;
    case Transform::kPosterize:
      return std::nearbyint(space.bits - space.lost_bits * strength);
    case Transform::kSolarize:
      return 1 - strength;
    default:
      return 0;
  }
}

DrawnTransform WithSign(const Space& space, Transform transform, int bin, RandomStream& random) {
  DrawnTransform drawn{transform, MagnitudeOf(space, transform, bin)};
  if (HasSign(transform) && random.NextFloat() < 0.5f) drawn.magnitude = -drawn.magnitude;
  return drawn;
}

struct PolicyStep {
  Transform transform;
  float probability;
  int bin;  // 0 where there is no magnitude
};

using enum Transform;
constexpr std::array<std::array<PolicyStep, 2>, 25> kImageNetPairs = {{
    {{{kPosterize, 0.4f, 8}, {kRotate, 0.6f, 9}}},
    {{{kSolarize, 0.6f, 5}, {kAutoContrast, 0.6f, 0}}},
    {{{kEqualize, 0.8f, 0}, {kEqualize, 0.6f, 0}}},
    {{{kPosterize, 0.6f, 7}, {kPosterize, 0.6f, 6}}},
    {{{kEqualize, 0.4f, 0}, {kSolarize, 0.2f, 4}}},
    {{{kEqualize, 0.4f, 0}, {kRotate, 0.8f, 8}}},
    {{{kSolarize, 0.6f, 3}, {kEqualize, 0.6f, 0}}},
    {{{kPosterize, 0.8f, 5}, {kEqualize, 1.0f, 0}}},
    {{{kRotate, 0.2f, 3}, {kSolarize, 0.6f, 8}}},
    {{{kEqualize, 0.6f, 0}, {kPosterize, 0.4f, 6}}},
    {{{kRotate, 0.8f, 8}, {kColor, 0.4f, 0}}},
    {{{kRotate, 0.4f, 9}, {kEqualize, 0.6f, 0}}},
    {{{kEqualize, 0.0f, 0}, {kEqualize, 0.8f, 0}}},
    {{{kInvert, 0.6f, 0}, {kEqualize, 1.0f, 0}}},
    {{{kColor, 0.6f, 4}, {kContrast, 1.0f, 8}}},
    {{{kRotate, 0.8f, 8}, {kColor, 1.0f, 2}}},
    {{{kColor, 0.8f, 8}, {kSolarize, 0.8f, 7}}},
    {{{kSharpness, 0.4f, 7}, {kInvert, 0.6f, 0}}},
    {{{kShearX, 0.6f, 5}, {kEqualize, 1.0f, 0}}},
    {{{kColor, 0.4f, 0}, {kEqualize, 0.6f, 0}}},
    {{{kEqualize, 0.4f, 0}, {kSolarize, 0.2f, 4}}},
    {{{kSolarize, 0.6f, 5}, {kAutoContrast, 0.6f, 0}}},
    {{{kInvert, 0.6f, 0}, {kEqualize, 1.0f, 0}}},
    {{{kColor, 0.6f, 4}, {kContrast, 1.0f, 8}}},
    {{{kEqualize, 0.8f, 0}, {kEqualize, 0.6f, 0}}},
}};

// AugMix's order; the last four only with all_ops.
constexpr std::array<Transform, 13> kMixedTransforms = {
    kShearX,       kShearY,   kTranslateX, kTranslateY, kRotate,   kPosterize, kSolarize,
    kAutoContrast, kEqualize, kBrightness, kColor,      kContrast, kSharpness};
constexpr uint64_t kNumFewTransforms = 9;
constexpr int kMixedBins = 10;

Transform AnyTransform(RandomStream& random) {
  return static_cast<Transform>(random.Below(kNumTransforms));
}

}  // namespace

DrawnTransforms DrawTransforms(const AutoAugmentOptions& options, int64_t height, int64_t width,
                               RandomStream& random) {
  const Space space = SpaceOf(options, height, width);
  DrawnTransforms drawn;
  switch (options.policy) {
    case AugmentPolicy::kRandAugment:
      for (int i = 0; i < options.num_ops; ++i) {
        drawn.push_back(WithSign(space, AnyTransform(random), options.magnitude, random));
      }
      break;
    case AugmentPolicy::kTrivialAugment: {
      const Transform transform = AnyTransform(random);
      int bin = 0;
      if (HasMagnitude(transform)) {
        bin = static_cast<int>(random.Below(static_cast<uint64_t>(space.bins)));
      }
      drawn.push_back(WithSign(space, transform, bin, random));
      break;
    }
    case AugmentPolicy::kImageNet:
      for (const PolicyStep& step : kImageNetPairs[random.Below(kImageNetPairs.size())]) {
        if (random.NextFloat() >= step.probability) continue;
        drawn.push_back(WithSign(space, step.transform, step.bin, random));
      }
      break;
  }
  return drawn;
}

DrawnTransforms DrawChain(const AugMixOptions& options, int64_t height, int64_t width,
                          RandomStream& random) {
  const Space space = {
      0.3,       static_cast<double>(width) / 3, static_cast<double>(height) / 3, 30, 0.9, 4, 4,
      kMixedBins};
  const uint64_t depth =
      options.chain_depth > 0 ? static_cast<uint64_t>(options.chain_depth) : 1 + random.Below(3);
  DrawnTransforms drawn;
  for (uint64_t i = 0; i < depth; ++i) {
    const uint64_t choices = options.all_ops ? kMixedTransforms.size() : kNumFewTransforms;
    const Transform transform = kMixedTransforms[random.Below(choices)];
    int bin = 0;
    if (HasMagnitude(transform)) {
      bin = static_cast<int>(random.Below(static_cast<uint64_t>(options.severity)));
    }
    drawn.push_back(WithSign(space, transform, bin, random));
  }
  return drawn;
}

}  // namespace millrace::augment
