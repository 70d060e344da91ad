// Networks that predict: the outputs of an evaluation, without targets.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/messages.h"
#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

constexpr char kModel[] =
    "layer { input_layer { shape: [4, 4, 2] } } layer { convolution { filters: 3 kernel: 3 } }\n"
    "layer { batch_norm {} } layer { relu {} } layer { name: 'a' fully_connected { outputs: 3 } }\n"
    "layer { softmax_cross_entropy {} } layer { input: 'a' fully_connected { outputs: 1 } }\n"
    "layer { sigmoid_cross_entropy { target: 'other' } }\n";

class PredictionTest : public ::testing::Test {
 protected:
  PredictionTest()
      : weights_(MakeInitialWeights(model_, 1)),
        buffers_(MakeInitialBuffers(model_)),
        backend_(MakeOneDnnBackend(model_, weights_, buffers_, {}, 1)) {
    for (size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = static_cast<float>(i % 7) - 3;
    input_.inputs = {{pixels_.data(), DType::kF32, Shape{3, 4, 4, 2}}};
    input_.targets = {{labels_.data(), DType::kI64, Shape{3}},
                      {others_.data(), DType::kI64, Shape{3}}};
    input_.valid = valid_;
    input_.global_valid_rows = 2;
  }

  Network& Compile(NetworkUse use) {
    const auto network = (*backend_)->Compile(3, use);
    EXPECT_TRUE(network.ok()) << network.status();
    return **network;
  }

  const Model model_ = MakeModel(kModel);
  const TensorSet weights_;
  const TensorSet buffers_;
  const absl::StatusOr<std::unique_ptr<Backend>> backend_;
  std::vector<float> pixels_ = std::vector<float>(3 * 4 * 4 * 2);
  const std::vector<int64_t> labels_ = {2, 0, 0};
  const std::vector<int64_t> others_ = {1, 0, 0};
  const std::vector<uint8_t> valid_ = {1, 1, 0};
  StepInput input_;
};

TEST_F(PredictionTest, HasTheOutputsOfAnEvaluation) {
  Network& evaluation = Compile(NetworkUse::kEvaluation);
  const auto evaluated = ForwardResult(evaluation, input_);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_EQ(evaluated->valid, 2);
  Network& prediction = Compile(NetworkUse::kPrediction);
  input_.targets.clear();
  ASSERT_TRUE(prediction.Forward(input_).ok());
  for (size_t i = 0; i < 2; ++i) {
    const std::span<const float> output = *prediction.output(i);
    ASSERT_EQ(output.size(), i == 0 ? 9u : 3u);
    EXPECT_TRUE(std::ranges::equal(output, *evaluation.output(i))) << i;
    EXPECT_NE(output[0], 0);
  }
}

TEST_F(PredictionTest, TargetsBelongToAnEvaluationAlone) {
  EXPECT_MESSAGE(Compile(NetworkUse::kPrediction).Forward(input_),
                 absl::StatusCode::kInvalidArgument);
  input_.targets.clear();
  EXPECT_EQ(Compile(NetworkUse::kEvaluation).Forward(input_).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PredictionTest, WithoutGradientsThereIsNoTraining) {
  EXPECT_MESSAGE((*backend_)->Compile(3, NetworkUse::kTraining),
                 absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace::trainer
