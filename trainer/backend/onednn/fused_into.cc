#include "trainer/backend/backend.h"
#include "trainer/backend/fusion.h"

namespace millrace::trainer {

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
