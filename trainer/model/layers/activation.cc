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

}  // namespace

LayerFamily ActivationLayers() {
  static constexpr std::array kRows = {
      LayerRow{LayerSpec::kRelu, "relu", BuildActivation<LayerKind::kRelu>},
      LayerRow{LayerSpec::kRelu6, "relu6_", BuildActivation<LayerKind::kRelu6>},
      LayerRow{LayerSpec::kLeakyRelu, "leaky_relu", BuildLeakyRelu},
      LayerRow{LayerSpec::kSigmoid, "sigmoid", BuildActivation<LayerKind::kSigmoid>},
      LayerRow{LayerSpec::kTanh, "tanh", BuildActivation<LayerKind::kTanh>},
      LayerRow{LayerSpec::kSilu, "silu", BuildActivation<LayerKind::kSilu>},
  };
  return kRows;
}

}  // namespace millrace::trainer
