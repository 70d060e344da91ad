#include "augment/auto_augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/geometry/affine.h"
#include "augment/image/errors.h"
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
    return ResolvePolicy(input, options_.field, "auto_augment");
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, DType::kU8);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView image = in.at(row);
      const Shape& shape = image.shape;
      const ColorImage view{static_cast<const uint8_t*>(image.data), shape[0], shape[1], shape[2]};
      RandomStream random = run.Random(row, stage_);
      const DrawnTransforms drawn = DrawTransforms(options_, shape[0], shape[1], random);
      auto* to = static_cast<uint8_t*>(run.Allocate(out, row, shape));
      if (view.size() > 0) ApplyAll(drawn, view, run.arena(), to);
    }
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

absl::Status CheckRange(std::string_view name, int value, int least, int most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("auto_augment: ", ToAbsl(name), " is ", value,
                                                 "; expected ", least, " to ", most));
}

}  // namespace

absl::StatusOr<Schema> ResolvePolicy(const Schema& input, const std::string& field_name,
                                     std::string_view op) {
  static constexpr DType kBytesOnly[] = {DType::kU8};
  MILLRACE_ASSIGN_OR_RETURN(const Field field, FindImage(input, field_name, op, kBytesOnly));
  if (field.shape[2] == 1 || field.shape[2] == 3) return input;
  return FieldError(field, op, "1 or 3 channels");
}

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
  MILLRACE_RETURN_IF_ERROR(CheckRange("num_ops", options.num_ops, 1, kMaxOps));
  MILLRACE_RETURN_IF_ERROR(
      CheckRange("num_magnitude_bins", options.num_magnitude_bins, 2, kMaxBins));
  MILLRACE_RETURN_IF_ERROR(
      CheckRange("magnitude", options.magnitude, 0, options.num_magnitude_bins - 1));
  if (!(options.fill >= 0 && options.fill <= 255)) {
    return absl::InvalidArgumentError(
        absl::StrCat("auto_augment: fill is ", options.fill, "; expected 0 to 255"));
  }
  return std::make_unique<AutoAugment>(std::move(options), HashName(stage));
}

}  // namespace millrace::augment
