// What a batch norm measures, and how evaluation uses it.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

Model NormAndProduct() {
  return MakeModel(R"(layer { input_layer { shape: 2 } } layer { batch_norm { momentum: 0.3 } }
    layer { fully_connected { outputs: 2 bias: false } } layer { softmax_cross_entropy {} })");
}

// Rows (1, 10), (2, 20), (3, 60) and one of padding.
Samples ThreeRows(const Model& model) {
  Samples samples(model, 4, 1, 1);
  samples.images = {1, 10, 2, 20, 3, 60, 1e6, -1e6};
  return samples;
}

TEST(BatchNormTest, StatisticsAreOfTheValidRowsAndTheVarianceIsUnbiased) {
  const Model model = NormAndProduct();
  ASSERT_EQ(model.buffers.size(), 2u);
  EXPECT_EQ(model.buffers[0].name, "bn1/running_mean");
  EXPECT_EQ(model.buffers[1].name, "bn1/running_var");
  EXPECT_EQ(model.buffers[1].momentum, 0.3);
  const TensorSet weights = MakeInitialWeights(model, 1);
  EXPECT_EQ(weights[0], std::vector<float>({1, 1}));
  const TensorSet buffers = MakeInitialBuffers(model);
  EXPECT_EQ(buffers, TensorSet({{0, 0}, {1, 1}}));
  TensorSet gradients = MakeZeros(model);
  auto backend = MakeOneDnnBackend(model, weights, buffers, Spans(gradients), 1);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto network = (*backend)->Compile(4, NetworkUse::kTraining);
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_TRUE(ForwardResult(**network, ThreeRows(model).All()).ok());
  const TensorSet& statistics = (*network)->statistics();
  ASSERT_EQ(statistics.size(), 2u);
  EXPECT_THAT(statistics[0], Pointwise(FloatNear(1e-5f), {2.0f, 30.0f}));
  EXPECT_THAT(statistics[1], Pointwise(FloatNear(1e-4f), {1.0f, 700.0f}));
}

TEST(BatchNormTest, EvaluationUsesTheBuffersAsTheyAreNow) {
  const Model model = NormAndProduct();
  TensorSet weights = MakeInitialWeights(model, 1);
  weights = {{2, 1}, {0, -1}, {1, 0, 0, 1}};
  TensorSet buffers = {{0, 0}, {1, 1}};
  TensorSet gradients = MakeZeros(model);
  auto backend = MakeOneDnnBackend(model, weights, buffers, Spans(gradients), 1);
  ASSERT_TRUE(backend.ok()) << backend.status();
  Samples samples(model, 1, 0, 1);
  samples.images = {3, 20};
  samples.labels = {0};
  ASSERT_TRUE(EvaluateStep(**backend, samples.All()).ok());
  buffers = {{1, 30}, {4, 100}};
  const auto result = EvaluateStep(**backend, samples.All());
  ASSERT_TRUE(result.ok()) << result.status();
  // Logits 2 * (3 - 1) / 2 = 2 and (20 - 30) / 10 - 1 = -2.
  EXPECT_NEAR(result->loss_sum, std::log(1 + std::exp(-4.0)), 1e-4);
}

TEST(BatchNormTest, ABatchOfPaddingHasZeroStatisticsAndGradients) {
  const Model model = NormAndProduct();
  const TensorSet weights = MakeInitialWeights(model, 1);
  const TensorSet buffers = MakeInitialBuffers(model);
  TensorSet gradients = MakeInitialWeights(model, 2);
  auto backend = MakeOneDnnBackend(model, weights, buffers, Spans(gradients), 1);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const Samples samples(model, 3, 3, 1);
  ASSERT_TRUE(TrainStep(**backend, samples.Slice(0, 3, 7), Ignore).ok());
  for (const std::vector<float>& gradient : gradients) {
    EXPECT_TRUE(std::ranges::all_of(gradient, [](float g) { return g == 0; }));
  }
  const auto network = (*backend)->Compile(3, NetworkUse::kTraining);
  ASSERT_TRUE(network.ok());
  EXPECT_EQ((*network)->statistics(), TensorSet({{0, 0}, {0, 0}}));
}

TEST(BatchNormTest, WeightsMayBeginWithZeros) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 2 } }
    layer { batch_norm { zero_weights: true } }
    layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} })");
  EXPECT_EQ(MakeInitialWeights(model, 1)[0], std::vector<float>({0, 0}));
}

}  // namespace
}  // namespace millrace::trainer
