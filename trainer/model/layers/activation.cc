#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "trainer/model/layers/families.h"

namespace millrace::trainer {
namespace {

template <LayerKind kKind>
absl::Status BuildActivation(NewLayer& layer) {
  layer.layer.kind = kKind;
  layer.output = layer.inputs[0];
  return absl::OkStatus();
}

absl::Status BuildLeakyRelu(NewLayer& layer) {
  const LeakyRelu& spec = layer.spec.leaky_relu();
  const double slope = spec.has_slope() ? spec.slope() : 0.01;
  if (!std::isfinite(slope)) return BadLayer(absl::StrCat("slope is ", slope));
  layer.layer.attributes = Slope{slope};
  return BuildActivation<LayerKind::kLeakyRelu>(layer);
}

constexpr LayerOption kLeakyOptions[] = {
    {"slope", "factor of what is negative", "0.01"},
};

}  // namespace

LayerFamily ActivationLayers() {
  static constexpr std::array kRows = {
      LayerRow{LayerSpec::kRelu, "relu", BuildActivation<LayerKind::kRelu>, "max(x, 0)"},
      LayerRow{LayerSpec::kRelu6, "relu6_", BuildActivation<LayerKind::kRelu6>,
               "min(max(x, 0), 6)"},
      LayerRow{LayerSpec::kLeakyRelu, "leaky_relu", BuildLeakyRelu,
               "x, or slope x where x is negative", kLeakyOptions},
      LayerRow{LayerSpec::kSigmoid, "sigmoid", BuildActivation<LayerKind::kSigmoid>,
               "1 / (1 + exp(-x))"},
      LayerRow{LayerSpec::kTanh, "tanh", BuildActivation<LayerKind::kTanh>, "tanh(x)"},
      LayerRow{LayerSpec::kSilu, "silu", BuildActivation<LayerKind::kSilu>, "x sigmoid(x)"},
  };
  return kRows;
}

}  // namespace millrace::trainer
