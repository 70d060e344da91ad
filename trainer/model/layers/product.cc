#include <array>

#include "trainer/model/layers/families.h"

namespace millrace::trainer {
namespace {

absl::Status BuildFullyConnected(NewLayer& layer) {
  const FullyConnected& spec = layer.spec.fully_connected();
  const int64_t outputs = spec.outputs();
  const int64_t inputs = layer.inputs[0].num_elements();
  if (!InRange(outputs, 1, kMaxExtent)) return BadLayer("outputs must be 1 or more");
  layer.layer.kind = LayerKind::kFullyConnected;
  layer.output = {outputs};
  return AddWeights(layer, {{outputs, inputs}, inputs, outputs, outputs}, spec);
}

int64_t CountProduct(const NewLayer& layer) {
  return layer.parameters[layer.layer.weights].shape.num_elements();
}

constexpr LayerOption kProductOptions[] = {
    {"outputs", "number of values", kRequired},
    kBiasOption,
    kInitialOption,
};

}  // namespace

LayerFamily ProductLayers() {
  static constexpr std::array kRows = {
      LayerRow{LayerSpec::kFullyConnected, "fc", BuildFullyConnected,
               "Weighted sums of all values of a sample.", kProductOptions, 1, 1, CountProduct}};
  return kRows;
}

}  // namespace millrace::trainer
