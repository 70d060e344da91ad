// The multiply-adds of layers and networks.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/models.h"

namespace millrace::trainer {
namespace {

int64_t CountOf(const Model& model) {
  int64_t count = 0;
  for (const Layer& layer : model.layers) count += layer.multiply_adds;
  return count;
}

// Of one layer on an image of 6x6x4.
int64_t CountOf(const std::string& layer) {
  const Model model = MakeModel(absl::StrCat(
      "layer { input_layer { shape: [6, 6, 4] } }\nlayer { ", layer, " }\n",
      "layer { name: 'end' fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} }\n"));
  return model.layers[0].multiply_adds;
}

TEST(CostTest, EachKindCountsItsSumsOfProducts) {
  // Places, filters, and the window over the channels that a filter reads.
  EXPECT_EQ(CountOf("convolution { filters: 8 kernel: 3 }"), 4 * 4 * 8 * (3 * 3 * 4));
  EXPECT_EQ(CountOf("convolution { filters: 8 kernel: [3, 1] stride: 2 same: true }"),
            3 * 3 * 8 * (3 * 1 * 4));
  EXPECT_EQ(CountOf("convolution { filters: 8 kernel: 3 groups: 4 padding: 1 }"),
            6 * 6 * 8 * (3 * 3 * 1));
  EXPECT_EQ(CountOf("convolution { filters: 8 kernel: 3 bias: false }"),
            CountOf("convolution { filters: 8 kernel: 3 }"));
  // Each value of the input goes into a window of the filters of its group.
  EXPECT_EQ(CountOf("transposed_convolution { filters: 6 kernel: 2 stride: 2 }"),
            6 * 6 * 4 * (2 * 2 * 6));
  EXPECT_EQ(CountOf("transposed_convolution { filters: 6 kernel: 2 groups: 2 }"),
            6 * 6 * 4 * (2 * 2 * 3));
  EXPECT_EQ(CountOf("fully_connected { outputs: 10 }"), 6 * 6 * 4 * 10);
  for (const char* const none : {"pool { kernel: 2 }", "batch_norm {}", "relu {}", "dropout {}",
                                 "global_average_pool {}", "reshape {}"}) {
    EXPECT_EQ(CountOf(none), 0) << none;
  }
}

// The numbers that torchvision publishes with the weights of its networks ("_ops"): 4.089 and 1.814
// G.
TEST(CostTest, ResNetsCostWhatTorchvisionSays) {
  const auto count = [](const char* network) {
    const auto text = WriteModel(network, {});
    EXPECT_TRUE(text.ok()) << text.status();
    return CountOf(MakeModel(*text));
  };
  EXPECT_EQ(count("resnet50"), 4'089'184'256);
  EXPECT_EQ(count("resnet18"), 1'814'073'344);
}

}  // namespace
}  // namespace millrace::trainer
