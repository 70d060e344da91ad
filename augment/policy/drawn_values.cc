#include "augment/drawn_values.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "augment/color/color.h"
#include "augment/geometry/affine.h"
#include "augment/policy/auto_augment.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

std::string Named(std::string_view name, double value) {
  return absl::StrFormat("%s %.4g", ToAbsl(name), value);
}

std::string TextOf(const DrawnTransform& drawn, bool has_extents) {
  constexpr std::array<std::string_view, kNumTransforms + 1> kNames = {
      "identity",  "shear x",    "shear y",      "translate x", "translate y",
      "rotate",    "brightness", "color",        "contrast",    "sharpness",
      "posterize", "solarize",   "autocontrast", "equalize",    "invert"};
  const std::string_view name = kNames[static_cast<size_t>(drawn.transform)];
  const bool moves =
      drawn.transform == Transform::kTranslateX || drawn.transform == Transform::kTranslateY;
  const bool has_magnitude =
      drawn.transform != Transform::kIdentity && drawn.transform <= Transform::kSolarize;
  if (!has_magnitude || (moves && !has_extents)) return std::string(name);
  return Named(name, drawn.magnitude);
}

}  // namespace

std::string DrawnText(const ColorOptions& options, RandomStream random) {
  const auto factor = DrawColor(options, random);
  const bool has_factor = FactorLimits(options.op) != std::array<float, 2>{0, 0};
  return factor && has_factor ? Named("factor", *factor) : "";
}

std::string DrawnText(const ColorJitterOptions& options, RandomStream random) {
  std::vector<std::string> parts;
  for (const DrawnColor& color : DrawColorJitter(options, random)) {
    parts.push_back(Named(NameOf(color.op), color.factor));
  }
  return absl::StrJoin(parts, ", ");
}

std::string DrawnText(const AffineOptions& options, int64_t height, int64_t width,
                      RandomStream random) {
  const auto drawn = DrawAffine(options, height, width, random);
  if (!drawn) return "";
  std::string text = absl::StrFormat("%.4g degrees, scale %.4g, shear %.4g and %.4g degrees",
                                     drawn->degrees, drawn->scale, drawn->shear_x, drawn->shear_y);
  if (height > 0 && width > 0) {
    absl::StrAppendFormat(&text, ", %.4g pixels to the right and %.4g down", drawn->translate_x,
                          drawn->translate_y);
  }
  return text;
}

std::string DrawnText(const AutoAugmentOptions& options, int64_t height, int64_t width,
                      RandomStream random) {
  std::vector<std::string> parts;
  for (const DrawnTransform& drawn : DrawTransforms(options, height, width, random)) {
    parts.push_back(TextOf(drawn, height > 0 && width > 0));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace millrace::augment
