#include "trainer/backend/loss.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/messages.h"
#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

Model TwoClasses() {
  return MakeModel(R"(layer { input_layer { shape: 2 } }
    layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} })");
}

StepResult Softmax(std::span<const float> logits, const StepInput& input,
                   std::span<float> gradient) {
  return ComputeLoss(TwoClasses().losses[0], logits, input.targets[0], input, gradient);
}

TEST(LossTest, MatchesNumbersByHand) {
  // Row 0: softmax(0, ln 3) = (1/4, 3/4), label 1; row 1: softmax(0, 0) = (1/2, 1/2), label 0.
  const Model model = TwoClasses();
  Samples samples(model, 2, 0, 1);
  samples.labels = {1, 0};
  const std::vector<float> logits = {0, std::log(3.0f), 0, 0};
  std::vector<float> gradient(4);
  const StepResult result = Softmax(logits, samples.All(), gradient);
  EXPECT_NEAR(result.loss_sum, std::log(4.0 / 3) + std::log(2.0), 1e-7);
  EXPECT_EQ(result.correct, 2) << "the first of equal logits counts";
  const std::vector<float> expected = {0.125f, -0.125f, -0.25f, 0.25f};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(gradient[i], expected[i], 1e-7) << i;
}

// S-TRAIN-1.
TEST(LossTest, PaddingCountsForNothingAndMayHoldAnyLabel) {
  const Model model = TwoClasses();
  Samples samples(model, 3, 1, 1);
  samples.labels = {1, 0, 99};
  ASSERT_TRUE(CheckStepInput(model, samples.All()).ok());
  const std::vector<float> logits = {1, 2, 3, 4, 5, 6};
  std::vector<float> gradient(6, 7.0f);
  const StepResult result = Softmax(logits, samples.All(), gradient);
  EXPECT_EQ(result.valid, 2);
  EXPECT_EQ(gradient[4], 0.0f);
  EXPECT_EQ(gradient[5], 0.0f);
  EXPECT_NE(gradient[0], 0.0f);
}

// S-TRAIN-1.
TEST(LossTest, GradientIsDividedByTheGlobalRows) {
  const Model model = TwoClasses();
  const Samples samples(model, 2, 0, 1);
  const std::vector<float> logits = {1, 2, 3, 4};
  std::vector<float> two(4);
  std::vector<float> eight(4);
  Softmax(logits, samples.Slice(0, 2, 2), two);
  Softmax(logits, samples.Slice(0, 2, 8), eight);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(two[i], 4 * eight[i], 1e-7);
}

TEST(LossTest, TheScaleIsOfTheGradientsAlone) {
  const Model model = TwoClasses();
  const Samples samples(model, 2, 0, 1);
  const std::vector<float> logits = {1, 2, 3, 4};
  std::vector<float> plain(4);
  std::vector<float> scaled(4);
  const StepResult expected = Softmax(logits, samples.All(), plain);
  StepInput input = samples.All();
  input.loss_scale = 1024;
  EXPECT_EQ(Softmax(logits, input, scaled).loss_sum, expected.loss_sum);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(scaled[i], 1024 * plain[i]);
}

TEST(LossTest, LargeLogitsDoNotOverflow) {
  const Model model = TwoClasses();
  Samples samples(model, 1, 0, 1);
  samples.labels = {0};
  const std::vector<float> logits = {-1e4f, 1e4f};
  std::vector<float> gradient(2);
  EXPECT_NEAR(Softmax(logits, samples.All(), gradient).loss_sum, 2e4, 1e-3);
  EXPECT_EQ(gradient[1], 1.0f);
}

using Counts = std::pair<int64_t, int64_t>;

TEST(LossTest, TheFiveLargestAndThePlaceAmongEqualsAreCounted) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 2 } }
    layer { fully_connected { outputs: 7 } } layer { softmax_cross_entropy {} })");
  const auto count = [&](std::vector<float> logits, int64_t label) {
    Samples samples(model, 1, 0, 1);
    samples.labels = {label};
    const StepInput input = samples.All();
    const StepResult result = ComputeLoss(model.losses[0], logits, input.targets[0], input, {});
    return std::pair(result.correct, result.in_top5);
  };
  EXPECT_EQ(count({1, 2, 3, 4, 5, 6, 7}, 6), Counts(1, 1));
  EXPECT_EQ(count({1, 2, 3, 4, 5, 6, 7}, 2), Counts(0, 1));
  EXPECT_EQ(count({1, 2, 3, 4, 5, 6, 7}, 1), Counts(0, 0));
  EXPECT_EQ(count({3, 3, 3, 3, 3, 3, 3}, 4), Counts(0, 1));
  EXPECT_EQ(count({3, 3, 3, 3, 3, 3, 3}, 5), Counts(0, 0));
  const float nan = std::nanf("");
  EXPECT_EQ(count({nan, nan, nan, nan, nan, nan, nan}, 0), Counts(0, 0));
}

TEST(LossTest, MetricsOfOtherLossesAreSidesAndErrors) {
  const Model sides = MakeModel(R"(layer { input_layer { shape: 2 } }
    layer { fully_connected { outputs: 2 } } layer { sigmoid_cross_entropy {} })");
  const std::vector<float> output = {3, -1, 3, -1};
  const std::vector<float> target = {1, 0, 1, 1};
  Samples samples(sides, 2, 0, 1);
  StepInput input = samples.All();
  input.targets[0] = {target.data(), DType::kF32, Shape{2, 2}};
  EXPECT_EQ(ComputeLoss(sides.losses[0], output, input.targets[0], input, {}).correct, 1);
  const Model error = MakeModel(R"(layer { input_layer { shape: 2 } }
    layer { fully_connected { outputs: 2 } } layer { mean_squared_error { weight: 0.5 } })");
  const StepResult result = ComputeLoss(error.losses[0], output, input.targets[0], input, {});
  EXPECT_DOUBLE_EQ(result.loss_sum, 0.5 * ((4 + 1) / 2.0 + (4 + 4) / 2.0));
  EXPECT_DOUBLE_EQ(result.error_sum, 1.5 + 2);
}

TEST(LossTest, LabelOutsideTheClassesNamesTheSample) {
  const Model model = TwoClasses();
  Samples samples(model, 3, 0, 1);
  samples.labels = {1, 2, 0};
  StepInput input = samples.All();
  EXPECT_MESSAGE(CheckStepInput(model, input), absl::StatusCode::kInvalidArgument);
  const std::vector<SampleId> ids = {{4, 10}, {4, 17}, {4, 3}};
  input.ids = ids;
  input.locate = [](const SampleId& id) {
    RecordError error;
    error.file = "shard";
    error.ordinal = static_cast<int64_t>(id.record);
    return error;
  };
  const absl::Status status = CheckStepInput(model, input);
  EXPECT_MESSAGE(status, absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(GetRecordError(status).has_value());
  EXPECT_EQ(GetRecordError(status)->reason, RecordErrorReason::kValue);
  samples.labels[1] = -1;
  EXPECT_FALSE(CheckStepInput(model, input).ok());
}

TEST(LossTest, WrongShapesAndTypesAreNamed) {
  const Model model = TwoClasses();
  const Samples samples(model, 2, 0, 1);
  StepInput input = samples.All();
  input.inputs[0].dtype = DType::kI32;
  EXPECT_MESSAGE(CheckStepInput(model, input), absl::StatusCode::kInvalidArgument);
  input = samples.All();
  input.targets[0].shape = Shape{3};
  EXPECT_MESSAGE(CheckStepInput(model, input), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(CheckStepInput(model, StepInput()).ok());
}

TEST(LossTest, ScalesAreTakenOutExactly) {
  const std::vector<float> plain = {1.1f, -3e-30f, 1e30f, 0};
  std::vector<float> scaled;
  for (const float value : plain) scaled.push_back(value * 4096);
  Unscale(4096, scaled);
  EXPECT_EQ(scaled, plain);
}

}  // namespace
}  // namespace millrace::trainer
