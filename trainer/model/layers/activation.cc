#include <array>

#include "trainer/model/layers/families.h"

namespace millrace::trainer {
namespace {

absl::Status BuildRelu(NewLayer& layer) {
  layer.layer.kind = LayerKind::kRelu;
  layer.output = layer.inputs[0];
  return absl::OkStatus();
}

}  // namespace

LayerFamily ActivationLayers() {
  static constexpr std::array kRows = {LayerRow{LayerSpec::kRelu, "relu", BuildRelu}};
  return kRows;
}

}  // namespace millrace::trainer
