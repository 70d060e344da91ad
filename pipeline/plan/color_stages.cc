#include <optional>

#include "pipeline/plan/message.h"
#include "pipeline/stages/specs.h"

namespace millrace::pipeline {
namespace {

template <typename Message>
augment::ColorOptions OptionsOf(augment::ColorOp op, const Message& message) {
  augment::ColorOptions options;
  options.op = op;
  options.field = message.field();
  options.probability = message.probability();
  return options;
}

// Of one number or two; none, which the checks refuse, stays as it is.
template <typename Numbers>
void SetFactor(const Numbers& numbers, augment::ColorOptions* options) {
  if (!numbers.empty()) options->factor = {numbers[0], numbers[numbers.size() - 1]};
}

augment::ColorOptions Adjusted(augment::ColorOp op, const proto::Adjust& adjust) {
  augment::ColorOptions options = OptionsOf(op, adjust);
  SetFactor(adjust.factor(), &options);
  return options;
}

augment::ColorOptions Posterized(const proto::Posterize& posterize) {
  augment::ColorOptions options = OptionsOf(augment::ColorOp::kPosterize, posterize);
  const auto bits = static_cast<float>(posterize.bits());
  options.factor = {bits, bits};
  return options;
}

augment::ColorOptions Solarized(const proto::Solarize& solarize) {
  augment::ColorOptions options = OptionsOf(augment::ColorOp::kSolarize, solarize);
  options.factor = {solarize.threshold(), solarize.threshold()};
  return options;
}

augment::ColorOptions Blurred(const proto::GaussianBlur& blur) {
  augment::ColorOptions options = OptionsOf(augment::ColorOp::kGaussianBlur, blur);
  options.kernel_size = blur.kernel_size();
  SetFactor(blur.sigma(), &options);
  return options;
}

}  // namespace

std::optional<augment::ColorOptions> ColorOptionsOf(const proto::Stage& stage) {
  switch (stage.op_case()) {
    case proto::Stage::kBrightness:
      return Adjusted(augment::ColorOp::kBrightness, stage.brightness());
    case proto::Stage::kContrast:
      return Adjusted(augment::ColorOp::kContrast, stage.contrast());
    case proto::Stage::kSaturation:
      return Adjusted(augment::ColorOp::kSaturation, stage.saturation());
    case proto::Stage::kHue:
      return Adjusted(augment::ColorOp::kHue, stage.hue());
    case proto::Stage::kSharpness:
      return Adjusted(augment::ColorOp::kSharpness, stage.sharpness());
    case proto::Stage::kGrayscale:
      return OptionsOf(augment::ColorOp::kGrayscale, stage.grayscale());
    case proto::Stage::kInvert:
      return OptionsOf(augment::ColorOp::kInvert, stage.invert());
    case proto::Stage::kEqualize:
      return OptionsOf(augment::ColorOp::kEqualize, stage.equalize());
    case proto::Stage::kAutocontrast:
      return OptionsOf(augment::ColorOp::kAutocontrast, stage.autocontrast());
    case proto::Stage::kPosterize:
      return Posterized(stage.posterize());
    case proto::Stage::kSolarize:
      return Solarized(stage.solarize());
    case proto::Stage::kGaussianBlur:
      return Blurred(stage.gaussian_blur());
    default:
      return std::nullopt;
  }
}

}  // namespace millrace::pipeline
