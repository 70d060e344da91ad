#include "augment/auto_augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "augment/geometry/affine.h"
#include "augment/image/errors.h"
#include "augment/image/map_images.h"
#include "augment/image/options.h"
#include "augment/policy/auto_augment.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr int kMaxOps = 16;
constexpr int kMaxBins = 1000;

struct Move {
  AffineParameters parameters;
  bool around_corner = false;
};

Move MoveOf(const DrawnTransform& drawn) {
  const double magnitude = drawn.magnitude;
  const double angle = std::atan(magnitude) * (180.0 / std::numbers::pi);
  switch (drawn.transform) {
    case Transform::kShearX:
      return {{.shear_x = angle}, true};
    case Transform::kShearY:
      return {{.shear_y = angle}, true};
    case Transform::kTranslateX:
      return {{.translate_x = std::trunc(magnitude)}, false};
    case Transform::kTranslateY:
      return {{.translate_y = std::trunc(magnitude)}, false};
    default:
      return {{.degrees = -magnitude}, false};
  }
}

void ApplyMove(const Move& move, const ColorImage& in, bool bilinear, uint8_t fill, uint8_t* out) {
  const AffineMatrix matrix = move.around_corner
                                  ? InverseAffine(move.parameters, 0, 0)
                                  : InverseAffine(move.parameters, in.height, in.width);
  if (bilinear) return WarpBilinear(in, matrix, fill, out);
  WarpNearest(in, matrix, fill, out);
}

class AutoAugment final : public Op {
 public:
  AutoAugment(AutoAugmentOptions options, uint64_t stage)
      : options_(std::move(options)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveColorImage(input, options_.field, "auto_augment");
  }

  void Apply(Run& run) const override {
    MapImages(run, options_.field, stage_,
              [this](RandomStream& random, const ColorImage& in, uint8_t* out, RunArena& arena) {
                ApplyAll(DrawTransforms(options_, in.height, in.width, random), in, arena, out);
                return absl::OkStatus();
              });
  }

 private:
  // Images in between take turns in two pieces of memory, the last one being `out`.
  void ApplyAll(const DrawnTransforms& drawn, ColorImage in, RunArena& arena, uint8_t* out) const {
    if (drawn.empty()) return static_cast<void>(std::copy_n(in.data, in.size(), out));
    uint8_t* other = nullptr;
    if (drawn.size() > 1) {
      other = reinterpret_cast<uint8_t*>(arena.Allocate(static_cast<size_t>(in.size())));
    }
    for (size_t left = drawn.size(); left > 0; --left) {
      uint8_t* const to = left % 2 == 1 ? out : other;
      ApplyTransform(drawn[drawn.size() - left], in, options_.bilinear,
                     static_cast<uint8_t>(options_.fill), to);
      in.data = to;
    }
  }

  const AutoAugmentOptions options_;
  const uint64_t stage_;
};

}  // namespace

void ApplyTransform(const DrawnTransform& drawn, const ColorImage& in, bool bilinear, uint8_t fill,
                    uint8_t* out) {
  const auto color = [&](ColorOp op, double factor) {
    ApplyColor(op, in, static_cast<float>(factor), out);
  };
  switch (drawn.transform) {
    case Transform::kIdentity:
      return static_cast<void>(std::copy_n(in.data, in.size(), out));
    case Transform::kBrightness:
      return color(ColorOp::kBrightness, 1 + drawn.magnitude);
    case Transform::kColor:
      return color(ColorOp::kSaturation, 1 + drawn.magnitude);
    case Transform::kContrast:
      return color(ColorOp::kContrast, 1 + drawn.magnitude);
    case Transform::kSharpness:
      return color(ColorOp::kSharpness, 1 + drawn.magnitude);
    case Transform::kPosterize:
      return color(ColorOp::kPosterize, drawn.magnitude);
    case Transform::kSolarize:
      return color(ColorOp::kSolarize, 255 * drawn.magnitude);
    case Transform::kAutoContrast:
      return color(ColorOp::kAutocontrast, 0);
    case Transform::kEqualize:
      return color(ColorOp::kEqualize, 0);
    case Transform::kInvert:
      return color(ColorOp::kInvert, 0);
    default:
      return ApplyMove(MoveOf(drawn), in, bilinear, fill, out);
  }
}

absl::StatusOr<std::unique_ptr<Op>> MakeAutoAugment(AutoAugmentOptions options,
                                                    const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(CheckNumber("auto_augment", "num_ops", options.num_ops, 1, kMaxOps));
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber("auto_augment", "num_magnitude_bins", options.num_magnitude_bins, 2, kMaxBins));
  MILLRACE_RETURN_IF_ERROR(CheckNumber("auto_augment", "magnitude", options.magnitude, 0,
                                       options.num_magnitude_bins - 1));
  MILLRACE_RETURN_IF_ERROR(CheckNumber("auto_augment", "fill", options.fill, 0, 255));
  return std::make_unique<AutoAugment>(std::move(options), HashName(stage));
}

}  // namespace millrace::augment
