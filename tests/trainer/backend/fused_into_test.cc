// Which layers are said to be fused, against those that a network fuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <dnnl.hpp>

#include "tests/trainer/model/test_nets.h"
#include "trainer/backend/onednn/value_memory.h"
#include "trainer/models.h"

namespace millrace::trainer {
namespace {

std::string HostOf(const Model& model, const std::string& layer) {
  const auto found = std::ranges::find(model.layers, layer, &Layer::name);
  const int host = OneDnnFusedInto(model)[found - model.layers.begin()];
  return host < 0 ? "" : model.layers[host].name;
}

Model Written(const std::string& network) {
  const auto text = WriteModel(network, {10, {32, 32, 3}});
  EXPECT_TRUE(text.ok()) << text.status();
  return MakeModel(*text);
}

TEST(FusedIntoTest, LayersBehindANormAreOfItAndAReluOfItsConvolution) {
  const Model model = MakeModel(
      "layer { input_layer { shape: [4, 4, 2] } } layer { convolution { filters: 2 kernel: 1 } }\n"
      "layer { relu {} } layer { name: 'a' convolution { filters: 2 kernel: 1 } }\n"
      "layer { batch_norm {} } layer { input: ['bn1', 'relu1'] add {} } layer { relu {} }\n"
      "layer { pool { kernel: 2 } } layer { relu {} }\n"
      "layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} }\n");
  EXPECT_EQ(HostOf(model, "relu1"), "conv1");
  EXPECT_EQ(HostOf(model, "add1"), "bn1");
  EXPECT_EQ(HostOf(model, "relu2"), "bn1");
  EXPECT_EQ(HostOf(model, "relu3"), "");
  EXPECT_EQ(HostOf(model, "bn1"), "");
}

TEST(FusedIntoTest, IsWhatTheNetworkDoes) {
  for (const char* const name : {"lenet", "resnet18"}) {
    const Model model = Written(name);
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const ValueMemory memory(model, 1, NetworkUse::kTraining, BackendOptions(1), engine);
    const std::vector<int> hosts = OneDnnFusedInto(model);
    EXPECT_GT(std::ranges::count_if(hosts, [](int host) { return host >= 0; }), 2);
    for (size_t i = 0; i < hosts.size(); ++i) {
      EXPECT_EQ(hosts[i] >= 0, memory.IsFused(i)) << model.layers[i].name;
    }
  }
}

}  // namespace
}  // namespace millrace::trainer
