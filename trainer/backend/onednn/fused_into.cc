#include "trainer/backend/backend.h"
#include "trainer/backend/onednn/fusion.h"

namespace millrace::trainer {
namespace {

// The convolution or product that applies ReLU `i`; -1: none.
int HostOfRelu(const Model& model, const Wiring& wiring, int i) {
  if (model.layers[i].kind != LayerKind::kRelu) return -1;
  const int maker = wiring.maker(model.layers[i].inputs[0]);
  if (maker < 0 || wiring.only_reader(model.layers[maker].output) != i) return -1;
  const LayerKind kind = model.layers[maker].kind;
  const bool may = kind == LayerKind::kConvolution || kind == LayerKind::kFullyConnected;
  return may ? maker : -1;
}

}  // namespace

std::vector<int> OneDnnFusedInto(const Model& model) {
  const Wiring wiring(model);
  const Fusion fusion(model, wiring, BackendOptions(1).fuses);
  std::vector<int> hosts;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const int host = fusion.host(i);
    hosts.push_back(host >= 0 ? host : HostOfRelu(model, wiring, static_cast<int>(i)));
  }
  return hosts;
}

}  // namespace millrace::trainer
