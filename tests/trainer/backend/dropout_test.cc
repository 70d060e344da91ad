// Which values a dropout keeps, and what an input of bytes becomes.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

// The gradient of the product's weights has a column for each value: zero where it was dropped.
Model DropAndProduct() {
  return MakeModel(R"(layer { input_layer { shape: 2000 } }
    layer { name: "drop" dropout { rate: 0.3 } }
    layer { fully_connected { outputs: 2 bias: false } } layer { softmax_cross_entropy {} })");
}

class DropoutTest : public ::testing::Test {
 protected:
  // The gradients of one step.
  TensorSet Gradients(const Model& model, const StepInput& input) {
    TensorSet weights = MakeInitialWeights(model, 1);
    TensorSet gradients = MakeZeros(model);
    auto backend = MakeOneDnnBackend(model, weights, kNoBuffers, Spans(gradients), 1);
    EXPECT_TRUE(backend.ok()) << backend.status();
    EXPECT_TRUE(TrainStep(**backend, input, Ignore).ok());
    return gradients;
  }

  const Model model_ = DropAndProduct();
};

TEST_F(DropoutTest, ItDropsByItsRateAndScalesTheRest) {
  Samples samples(model_, 1, 0, 1);
  std::ranges::fill(samples.images, 1.0f);
  const TensorSet gradients = Gradients(model_, samples.All());
  const auto dropped = std::ranges::count(gradients[0], 0.0f);
  EXPECT_NEAR(static_cast<double>(dropped), 0.3 * 4000, 120);
  float kept = 0;
  for (const float gradient : gradients[0]) kept = std::max(kept, std::abs(gradient));
  for (const float gradient : gradients[0]) {
    EXPECT_TRUE(gradient == 0 || std::abs(gradient) == kept) << gradient;
  }
}

TEST_F(DropoutTest, SeedStepAndSampleChooseAndTheRowDoesNot) {
  Samples samples(model_, 1, 0, 1);
  std::ranges::fill(samples.images, 1.0f);
  const std::vector<SampleId> ids = {{0, 7, 0}};
  StepInput input = samples.All();
  input.ids = ids;
  const TensorSet first = Gradients(model_, input);
  EXPECT_EQ(Gradients(model_, input), first);
  input.step = 1;
  EXPECT_NE(Gradients(model_, input), first);
  input.step = 0;
  input.seed = 1;
  EXPECT_NE(Gradients(model_, input), first);
  input.seed = 0;
  const std::vector<SampleId> other = {{0, 8, 0}};
  input.ids = other;
  EXPECT_NE(Gradients(model_, input), first);

  // The sample in the second row, behind one of padding.
  Samples two(model_, 2, 0, 1);
  std::ranges::fill(two.images, 1.0f);
  two.valid = {0, 1};
  two.labels[1] = samples.labels[0];
  const std::vector<SampleId> second = {{0, 0, 0}, {0, 7, 0}};
  input = two.All();
  input.ids = second;
  const TensorSet moved = Gradients(model_, input);
  for (size_t i = 0; i < first[0].size(); ++i) {
    ASSERT_NEAR(moved[0][i], first[0][i], 1e-6) << i;
  }
}

TEST_F(DropoutTest, AnEvaluationDropsNothing) {
  const Model plain = MakeModel(R"(layer { input_layer { shape: 2000 } }
    layer { fully_connected { outputs: 2 bias: false } } layer { softmax_cross_entropy {} })");
  const Samples samples(model_, 3, 1, 1);
  const TensorSet weights = MakeInitialWeights(model_, 1);
  TensorSet gradients = MakeZeros(model_);
  double losses[2] = {0, 0};
  for (const Model* const model : {&model_, &plain}) {
    auto backend = MakeOneDnnBackend(*model, weights, kNoBuffers, Spans(gradients), 1);
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto result = EvaluateStep(**backend, samples.All());
    ASSERT_TRUE(result.ok()) << result.status();
    losses[model == &plain ? 1 : 0] = result->loss_sum;
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(BytesInputTest, ItIsNormalisedByChannelInTheModel) {
  const std::string rest = R"(layer { name: "c" convolution { filters: 2 kernel: 2 } }
    layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} })";
  const Model bytes = MakeModel(R"(layer { input_layer { shape: [2, 2, 3] dtype: "uint8"
      mean: [10, 20, 30] stddev: [2, 4, 8] } })" +
                                rest);
  const Model floats = MakeModel("layer { input_layer { shape: [2, 2, 3] } }" + rest);
  Samples samples(floats, 2, 0, 1);
  std::vector<uint8_t> pixels(24);
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<uint8_t>(11 * i);
    const auto c = static_cast<int>(i % 3);
    samples.images[i] = (static_cast<float>(pixels[i]) - 10.0f * static_cast<float>(c + 1)) /
                        static_cast<float>(2 << c);
  }
  StepInput input = samples.All();
  const TensorSet weights = MakeInitialWeights(floats, 1);
  TensorSet expected = MakeZeros(floats);
  TensorSet gradients = MakeZeros(floats);
  auto plain = MakeOneDnnBackend(floats, weights, kNoBuffers, Spans(expected), 1);
  auto backend = MakeOneDnnBackend(bytes, weights, kNoBuffers, Spans(gradients), 1);
  ASSERT_TRUE(plain.ok() && backend.ok());
  ASSERT_TRUE(TrainStep(**plain, input, Ignore).ok());
  EXPECT_FALSE(TrainStep(**backend, input, Ignore).ok()) << "float32 is not uint8";
  input.inputs[0] = {pixels.data(), DType::kU8, Shape{2, 2, 2, 3}};
  ASSERT_TRUE(TrainStep(**backend, input, Ignore).ok());
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t k = 0; k < expected[i].size(); ++k) {
      EXPECT_NEAR(gradients[i][k], expected[i][k], 1e-4) << i;
    }
  }
}

// Whole numbers are the same in all types.
TEST(InputTypeTest, ValuesOfEveryTypeBecomeFloats) {
  const auto model_of = [](const std::string& dtype) {
    return MakeModel(
        "layer { input_layer { shape: [2, 2, 3] dtype: '" + dtype +
        "' } } layer { convolution { filters: 2 kernel: 2 } }"
        " layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} }");
  };
  const Model floats = model_of("float32");
  Samples samples(floats, 2, 0, 1);
  for (size_t i = 0; i < samples.images.size(); ++i) samples.images[i] = static_cast<float>(i) - 9;
  const TensorSet weights = MakeInitialWeights(floats, 1);
  const auto gradients_of = [&](const Model& model, const StepInput& input, Precision precision) {
    TensorSet gradients = MakeZeros(model);
    BackendOptions options = 1;
    options.precision = precision;
    auto backend = MakeOneDnnBackend(model, weights, kNoBuffers, Spans(gradients), options);
    EXPECT_TRUE(backend.ok()) << backend.status();
    const auto result = TrainStep(**backend, input, Ignore);
    EXPECT_TRUE(result.ok()) << result.status();
    return gradients;
  };
  const auto check = [&]<typename T>(const std::string& name, DType dtype, T (*of)(float)) {
    std::vector<T> values;
    for (const float value : samples.images) values.push_back(of(value));
    StepInput input = samples.All();
    for (const Precision precision : {Precision::kFloat32, Precision::kAuto}) {
      input.inputs[0] = samples.All().inputs[0];
      const TensorSet expected = gradients_of(floats, input, precision);
      input.inputs[0] = {values.data(), dtype, Shape{2, 2, 2, 3}};
      EXPECT_EQ(gradients_of(model_of(name), input, precision), expected) << name;
    }
  };
  check(
      "float16", DType::kF16, +[](float value) { return ToHalf(value); });
  check(
      "bfloat16", DType::kBF16, +[](float value) { return ToBFloat(value); });
  check(
      "int32", DType::kI32, +[](float value) { return static_cast<int32_t>(value); });
  check(
      "int64", DType::kI64, +[](float value) { return static_cast<int64_t>(value); });
}

}  // namespace
}  // namespace millrace::trainer
