#ifndef MILLRACE_TESTS_TRAINER_BACKEND_BACKEND_CONFORMANCE_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_BACKEND_CONFORMANCE_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "tests/trainer/backend/reference.h"
#include "tests/trainer/backend/tested_backend.h"
#include "tests/trainer/model/test_nets.h"

// Each layer of a backend against an independent reference: naive loops in double, differentiated
// numerically. Every backend instantiates these tests, and those of network_conformance.h and
// synchronized_conformance.h.

namespace millrace::trainer {

class BackendConformanceTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  // Null after a failure.
  static std::unique_ptr<TestedBackend> Make(const Model& model, const TensorSet& weights,
                                             const BackendOptions& options = 2) {
    return Make(model, weights, MakeInitialBuffers(model), options);
  }
  static std::unique_ptr<TestedBackend> Make(const Model& model, const TensorSet& weights,
                                             const TensorSet& buffers,
                                             const BackendOptions& options) {
    auto made = GetParam().make(model, weights, buffers, options);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *std::move(made) : nullptr;
  }
  static void CheckGradients(const Model& model, const Samples& samples);
};

// Compares all gradients of one step with central differences. Tolerance: float32 sums of some
// hundred products, relative to the tensor's largest gradient.
inline void BackendConformanceTest::CheckGradients(const Model& model, const Samples& samples) {
  TensorSet weights = MakeInitialWeights(model, 7);
  for (size_t i = 0; i < weights.size(); ++i) {
    for (size_t k = 0; model.parameters[i].is_bias && k < weights[i].size(); ++k) {
      weights[i][k] = 0.1f * static_cast<float>(k + 1);
    }
  }
  std::vector<Values> parameters;
  for (const auto& tensor : weights) parameters.emplace_back(tensor.begin(), tensor.end());

  std::vector<size_t> order;
  const auto tested = Make(model, weights, 2);
  ASSERT_NE(tested, nullptr);
  const auto result = TrainStep(tested->backend(), samples.All(), [&](size_t i) {
    order.push_back(i);
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.ok()) << result.status();
  const double loss = ReferenceLoss(model, parameters, samples);
  EXPECT_NEAR(result->loss_sum, loss, 1e-5 * loss);
  EXPECT_EQ(result->valid, samples.num_valid());

  const TensorSet gradients = tested->Gradients();
  for (size_t i = 0; i < weights.size(); ++i) {
    Values expected(weights[i].size());
    double largest = 0;
    for (size_t k = 0; k < expected.size(); ++k) {
      const double saved = parameters[i][k];
      parameters[i][k] = saved + 1e-5;
      const double high = ReferenceLoss(model, parameters, samples);
      parameters[i][k] = saved - 1e-5;
      const double low = ReferenceLoss(model, parameters, samples);
      parameters[i][k] = saved;
      expected[k] = (high - low) / 2e-5 / static_cast<double>(samples.num_valid());
      largest = std::max(largest, std::abs(expected[k]));
    }
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_NEAR(gradients[i][k], expected[k], 2e-5 * largest + 1e-8)
          << model.parameters[i].name << "[" << k << "]";
    }
  }
  std::vector<size_t> reversed(weights.size());
  for (size_t i = 0; i < reversed.size(); ++i) reversed[i] = reversed.size() - 1 - i;
  EXPECT_EQ(order, reversed) << "gradients are reported in reverse order";
}

TEST_P(BackendConformanceTest, FullyConnectedMatchesReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 5 } }
    layer { fully_connected { outputs: 4 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 3, 0, 1));
}

TEST_P(BackendConformanceTest, TwoFullyConnectedWithFusedReluMatchReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [3, 2, 2] } }
    layer { fully_connected { outputs: 7 } } layer { relu {} }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 5, 2, 2));
}

TEST_P(BackendConformanceTest, ReluOnTheInputLeavesTheBatchAloneAndMatchesReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 6 } } layer { relu {} }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  const Samples samples(model, 4, 0, 3);
  const std::vector<float> before = samples.images;
  CheckGradients(model, samples);
  EXPECT_EQ(samples.images, before);
}

TEST_P(BackendConformanceTest, ConvolutionWithStrideAndPaddingMatchesReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [7, 6, 3] } }
    layer { convolution { filters: 5 kernel: 3 stride: 2 padding: 1 } } layer { relu {} }
    layer { convolution { filters: 4 kernel: 2 } }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 4, 1, 4));
}

TEST_P(BackendConformanceTest, MaxPoolWithPaddingMatchesReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [7, 7, 2] } }
    layer { convolution { filters: 4 kernel: 3 padding: 1 } }
    layer { pool { kernel: 3 stride: 2 padding: 1 } } layer { relu {} }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 3, 0, 5));
}

TEST_P(BackendConformanceTest, AveragePoolCountsOnlyElementsInside) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [6, 6, 2] } }
    layer { convolution { filters: 3 kernel: 3 } } layer { relu {} }
    layer { pool { kind: AVERAGE kernel: 2 padding: 1 } } layer { relu {} }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 3, 0, 6));
}

TEST_P(BackendConformanceTest, LeNetShapeOfOneChannelMatchesReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [12, 12, 1] } }
    layer { convolution { filters: 16 kernel: 5 padding: 2 } } layer { relu {} }
    layer { pool { kernel: 2 } }
    layer { convolution { filters: 6 kernel: 3 } } layer { relu {} } layer { pool { kernel: 2 } }
    layer { fully_connected { outputs: 8 } } layer { relu {} }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 2, 0, 7));
}

TEST_P(BackendConformanceTest, AValueWithThreeReadersGetsTheSumOfTheirGradients) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [5, 5, 2] } }
    layer { name: "stem" convolution { filters: 3 kernel: 3 } }
    layer { name: "a" input: "stem" relu {} }
    layer { name: "b" input: "stem" pool { kernel: 2 } }
    layer { name: "c" input: "stem" fully_connected { outputs: 3 } }
    layer { name: "fa" input: "a" fully_connected { outputs: 3 } }
    layer { name: "fb" input: "b" fully_connected { outputs: 3 } }
    layer { input: "fa" softmax_cross_entropy {} } layer { input: "fb" softmax_cross_entropy {} }
    layer { input: "c" softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 3, 1, 10));
}

TEST_P(BackendConformanceTest, ConvolutionsWithEveryOptionMatchReference) {
  for (const char* const options :
       {"kernel: [3, 2] stride: [1, 2] padding: [1, 0]", "kernel: 3 padding: [0, 2, 1, 0]",
        "kernel: [1, 3] dilation: [1, 2]", "kernel: 3 stride: 2 same: true",
        "kernel: [2, 5] dilation: [3, 1] same: true", "kernel: 3 groups: 2 bias: false",
        "kernel: 2 groups: 4 dilation: 2 padding: 1", "kernel: 1 bias: false"}) {
    SCOPED_TRACE(options);
    const Model model = MakeModel(std::string(R"(layer { input_layer { shape: [6, 7, 3] } }
        layer { convolution { filters: 4 kernel: 1 } } layer { convolution { filters: 8 )") +
                                  options + R"(} } layer { relu {} }
        layer { fully_connected { outputs: 3 bias: false } } layer { softmax_cross_entropy {} })");
    CheckGradients(model, Samples(model, 2, 0, 11));
  }
}

TEST_P(BackendConformanceTest, TransposedConvolutionsMatchReference) {
  for (const char* const options :
       {"kernel: 3 stride: 2", "kernel: [4, 3] stride: [2, 1] padding: [1, 0]",
        "kernel: 5 stride: 2 same: true bias: false", "kernel: 3 padding: [0, 1, 2, 1]",
        "kernel: 2 dilation: 2 groups: 2"}) {
    SCOPED_TRACE(options);
    const Model model = MakeModel(std::string(R"(layer { input_layer { shape: [3, 4, 2] } }
        layer { convolution { filters: 4 kernel: 1 } }
        layer { transposed_convolution { filters: 6 )") +
                                  options + R"(} } layer { relu {} }
        layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
    CheckGradients(model, Samples(model, 2, 0, 19));
  }
}

TEST_P(BackendConformanceTest, PoolsWithEveryOptionMatchReference) {
  for (const char* const pool : {"pool { kernel: [3, 2] stride: [1, 2] padding: [1, 0] }",
                                 "pool { kind: AVERAGE kernel: [2, 3] padding: [0, 1, 2, 1] }",
                                 "pool { kind: AVERAGE kernel: 3 stride: 2 same: true }",
                                 "pool { kernel: 2 same: true }", "global_average_pool {}"}) {
    SCOPED_TRACE(pool);
    const Model model = MakeModel(std::string(R"(layer { input_layer { shape: [5, 7, 2] } }
        layer { convolution { filters: 3 kernel: 1 } } layer { )") +
                                  pool + R"( }
        layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
    CheckGradients(model, Samples(model, 2, 0, 12));
  }
}

TEST_P(BackendConformanceTest, ActivationsMatchReference) {
  for (const char* const activation :
       {"relu {}", "relu6 {}", "leaky_relu {}", "leaky_relu { slope: 0.2 }", "sigmoid {}",
        "tanh {}", "silu {}"}) {
    SCOPED_TRACE(activation);
    const Model model = MakeModel(std::string(R"(layer { input_layer { shape: 5 } }
        layer { fully_connected { outputs: 40 } } layer { name: "a" )") +
                                  activation + R"( } layer { relu {} }
        layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
    CheckGradients(model, Samples(model, 3, 1, 13));
  }
}

// The first addend is read twice by one layer, and by another.
TEST_P(BackendConformanceTest, JoinedLayersMatchReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [4, 4, 2] } }
    layer { name: "a" convolution { filters: 3 kernel: 1 } }
    layer { name: "b" input: "input1" convolution { filters: 3 kernel: 3 same: true } }
    layer { name: "sum" input: ["a", "b", "a"] add {} } layer { relu {} }
    layer { name: "product" input: ["relu1", "b"] multiply {} }
    layer { name: "c" input: "a" convolution { filters: 2 kernel: 1 } }
    layer { name: "all" input: ["product", "c", "relu1"] concat {} }
    layer { name: "flat" reshape {} } layer { relu {} }
    layer { name: "image" reshape { shape: [8, 4, 4] } }
    layer { convolution { filters: 2 kernel: 2 } }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 3, 1, 14));
}

TEST_P(BackendConformanceTest, AReshapedValueWithOtherReadersMatchesReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [2, 2, 3] } }
    layer { name: "direct" reshape {} }
    layer { name: "a" input: "input1" convolution { filters: 3 kernel: 1 } }
    layer { name: "flat" reshape {} } layer { relu {} }
    layer { name: "sum" input: ["relu1", "direct"] add {} }
    layer { name: "b" input: "a" fully_connected { outputs: 12 } }
    layer { name: "c" input: ["sum", "b"] concat {} }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 3, 1, 15));
}

TEST_P(BackendConformanceTest, BatchNormOfImagesAndVectorsWithoutPaddingMatchesReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [4, 3, 2] } }
    layer { convolution { filters: 3 kernel: 3 same: true bias: false } }
    layer { name: "a" batch_norm { epsilon: 0.01 } } layer { relu {} }
    layer { fully_connected { outputs: 5 bias: false } } layer { batch_norm {} } layer { relu {} }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 6, 0, 16));
  CheckGradients(model, Samples(model, 6, 2, 17));
}

TEST_P(BackendConformanceTest, BatchNormOfTheInputAndInAResidualBlockMatchesReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [5, 5, 2] } }
    layer { name: "in" batch_norm {} }
    layer { name: "stem" convolution { filters: 3 kernel: 1 } }
    layer { name: "c1" convolution { filters: 3 kernel: 3 padding: 1 bias: false } }
    layer { batch_norm {} } layer { relu {} }
    layer { name: "c2" convolution { filters: 3 kernel: 3 padding: 1 bias: false } }
    layer { name: "n2" batch_norm {} }
    layer { input: ["n2", "stem"] add {} } layer { relu {} }
    layer { global_average_pool {} }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  CheckGradients(model, Samples(model, 4, 1, 18));
}

TEST_P(BackendConformanceTest, EvaluationGivesTheSameLossAsTraining) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [8, 8, 1] } }
    layer { convolution { filters: 4 kernel: 3 } } layer { relu {} } layer { pool { kernel: 2 } }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  const Samples samples(model, 9, 2, 8);
  const TensorSet weights = MakeInitialWeights(model, 1);
  const auto tested = Make(model, weights, 1);
  ASSERT_NE(tested, nullptr);
  const auto trained = TrainStep(tested->backend(), samples.All(), Ignore);
  const auto evaluated = EvaluateStep(tested->backend(), samples.All());
  ASSERT_TRUE(trained.ok() && evaluated.ok());
  EXPECT_NEAR(trained->loss_sum, evaluated->loss_sum, 1e-5);
  EXPECT_EQ(trained->correct, evaluated->correct);
  EXPECT_EQ(evaluated->valid, 7);
}

// S-TRAIN-2.
TEST_P(BackendConformanceTest, SameInputsGiveTheSameBits) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [14, 14, 1] } }
    layer { convolution { filters: 8 kernel: 5 } } layer { relu {} } layer { pool { kernel: 2 } }
    layer { fully_connected { outputs: 10 } } layer { softmax_cross_entropy {} })");
  const Samples samples(model, 32, 3, 9);
  const TensorSet weights = MakeInitialWeights(model, 1);
  uint64_t first = 0;
  for (int round = 0; round < 20; ++round) {
    const auto tested = Make(model, weights, 2);
    ASSERT_NE(tested, nullptr);
    ASSERT_TRUE(TrainStep(tested->backend(), samples.All(), Ignore).ok());
    if (round == 0) first = Digest(tested->Gradients());
    ASSERT_EQ(Digest(tested->Gradients()), first) << "round " << round;
  }
}

TEST_P(BackendConformanceTest, AnErrorOfTheCallbackEndsTheStep) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 5 } }
    layer { fully_connected { outputs: 4 } } layer { softmax_cross_entropy {} })");
  const TensorSet weights = MakeInitialWeights(model, 1);
  const auto tested = Make(model, weights, 1);
  ASSERT_NE(tested, nullptr);
  const auto result = TrainStep(tested->backend(), Samples(model, 2, 0, 1).All(),
                                [](size_t) { return absl::UnavailableError("peer gone"); });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_BACKEND_CONFORMANCE_H_
