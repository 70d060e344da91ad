#ifndef MILLRACE_TESTS_TRAINER_BACKEND_NETWORK_CONFORMANCE_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_NETWORK_CONFORMANCE_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/half.h"
#include "tests/trainer/backend/backend_conformance.h"

// Networks against PyTorch (loss and gradients as fixtures/make_layers.py has written them), values
// that are dropped, types of inputs, and gradients at the ends of networks. Every backend
// instantiates these tests.

namespace millrace::trainer {

class NetworkConformanceTest : public BackendConformanceTest {
 protected:
  static void CheckPyTorch(const nlohmann::json& expected);
};

// --- PyTorch ---

inline constexpr int64_t kRows = 4;

inline float ValueOf(size_t tensor, size_t k) {
  return static_cast<float>(
      0.8 * std::sin(12.9898 * static_cast<double>(k) + 7.233 * static_cast<double>(tensor) + 0.3));
}

inline void Fill(size_t tensor, std::vector<float>& values) {
  for (size_t k = 0; k < values.size(); ++k) values[k] = ValueOf(tensor, k);
}

inline double LargestOf(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max<double>(largest, std::abs(value));
  return largest;
}

// Tolerances are those of float32 sums of some hundred products, relative to the tensor's largest
// gradient.
inline void CheckGradient(const nlohmann::json& expected, const std::vector<float>& actual) {
  const double tolerance = 1e-5 * LargestOf(actual) + 1e-5;
  const std::vector<double> first = expected["first"];
  for (size_t k = 0; k < first.size(); ++k) EXPECT_NEAR(actual[k], first[k], tolerance) << k;
  EXPECT_NEAR(std::accumulate(actual.begin(), actual.end(), 0.0), expected["sum"].get<double>(),
              tolerance * static_cast<double>(actual.size()));
}

// Running statistics after one batch from (0, 1).
inline void CheckStatistics(const nlohmann::json& expected, const Model& model,
                            const TensorSet& statistics) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const Buffer& buffer = model.buffers[i];
    for (size_t c = 0; c < statistics[i].size(); ++c) {
      const double now =
          (1 - buffer.momentum) * buffer.initial + buffer.momentum * statistics[i][c];
      EXPECT_NEAR(now, expected[i][c].get<double>(), 1e-5) << buffer.name;
    }
  }
}

inline void NetworkConformanceTest::CheckPyTorch(const nlohmann::json& expected) {
  const Model model = MakeModel(expected["model"]);
  Samples samples(model, kRows, 0, 0);
  Fill(0, samples.images);
  for (int64_t row = 0; row < kRows; ++row) samples.labels[row] = row % 3;
  StepInput input = samples.All();
  const std::vector<float> target = expected["target"];
  const Shape target_shape = model.losses[0].shape.Prepend(kRows);
  if (!target.empty()) input.targets[0] = {target.data(), DType::kF32, target_shape};
  TensorSet weights = MakeZeros(model);
  for (size_t i = 0; i < weights.size(); ++i) Fill(i + 1, weights[i]);
  const auto tested = Make(model, weights);
  ASSERT_NE(tested, nullptr);
  const auto result = TrainStep(tested->backend(), input, Ignore);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->loss_sum / kRows, expected["loss"].get<double>(), 1e-5);
  const TensorSet gradients = tested->Gradients();
  ASSERT_EQ(expected["gradients"].size(), gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    SCOPED_TRACE(model.parameters[i].name);
    CheckGradient(expected["gradients"][i], gradients[i]);
  }
  const auto network = tested->backend().Compile(kRows, NetworkUse::kTraining);
  ASSERT_TRUE(network.ok());
  CheckStatistics(expected["running"], model, (*network)->statistics());
}

TEST_P(NetworkConformanceTest, LossesAndGradientsArePyTorchs) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  std::ifstream file(std::string(root) + "/tests/trainer/backend/fixtures/layers.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  EXPECT_GE(cases.size(), 15u);
  for (const nlohmann::json& one : cases) {
    SCOPED_TRACE(one["name"].get<std::string>());
    CheckPyTorch(one);
  }
}

// --- Dropouts ---

// The gradient of the product's weights has a column for each value: zero where it was dropped.
inline Model DropAndProduct() {
  return MakeModel(R"(layer { input_layer { shape: 2000 } }
    layer { name: "drop" dropout { rate: 0.3 } }
    layer { fully_connected { outputs: 2 bias: false } } layer { softmax_cross_entropy {} })");
}

class DropoutConformanceTest : public BackendConformanceTest {
 protected:
  // The gradients of one step.
  TensorSet Gradients(const Model& model, const StepInput& input) {
    const TensorSet weights = MakeInitialWeights(model, 1);
    const auto tested = Make(model, weights);
    EXPECT_TRUE(TrainStep(tested->backend(), input, Ignore).ok());
    return tested->Gradients();
  }

  const Model model_ = DropAndProduct();
};

TEST_P(DropoutConformanceTest, ItDropsByItsRateAndScalesTheRest) {
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

TEST_P(DropoutConformanceTest, SeedStepAndSampleChooseAndTheRowDoesNot) {
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

TEST_P(DropoutConformanceTest, AnEvaluationDropsNothing) {
  const Model plain = MakeModel(R"(layer { input_layer { shape: 2000 } }
    layer { fully_connected { outputs: 2 bias: false } } layer { softmax_cross_entropy {} })");
  const Samples samples(model_, 3, 1, 1);
  const TensorSet weights = MakeInitialWeights(model_, 1);
  double losses[2] = {0, 0};
  for (const Model* const model : {&model_, &plain}) {
    const auto tested = Make(*model, weights);
    ASSERT_NE(tested, nullptr);
    const auto result = EvaluateStep(tested->backend(), samples.All());
    ASSERT_TRUE(result.ok()) << result.status();
    losses[model == &plain ? 1 : 0] = result->loss_sum;
  }
  EXPECT_EQ(losses[0], losses[1]);
}

// Element i of the sample is dropped where word i of its stream is below the rate.
TEST_P(DropoutConformanceTest, TheStreamOfTheSampleDecides) {
  Samples samples(model_, 1, 0, 1);
  std::ranges::fill(samples.images, 1.0f);
  const std::vector<SampleId> ids = {{3, 7, 2}};
  StepInput input = samples.All();
  input.ids = ids;
  input.seed = 5;
  input.step = 11;
  const TensorSet gradients = Gradients(model_, input);
  RandomKey key;
  key.seed = Mix64(5 ^ Mix64(11));
  key.op = HashName("drop");
  key.epoch = 3;
  key.record = 7;
  key.sub_index = 2;
  RandomStream stream(key);
  for (size_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(gradients[0][i] == 0, stream.NextFloat() < 0.3) << i;
  }
}

// --- Inputs ---

TEST_P(NetworkConformanceTest, BytesAreNormalisedByChannelInTheModel) {
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
  const auto plain = Make(floats, weights);
  const auto tested = Make(bytes, weights);
  ASSERT_TRUE(plain != nullptr && tested != nullptr);
  ASSERT_TRUE(TrainStep(plain->backend(), input, Ignore).ok());
  EXPECT_FALSE(TrainStep(tested->backend(), input, Ignore).ok()) << "float32 is not uint8";
  input.inputs[0] = {pixels.data(), DType::kU8, Shape{2, 2, 2, 3}};
  ASSERT_TRUE(TrainStep(tested->backend(), input, Ignore).ok());
  const TensorSet expected = plain->Gradients();
  const TensorSet gradients = tested->Gradients();
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t k = 0; k < expected[i].size(); ++k) {
      EXPECT_NEAR(gradients[i][k], expected[i][k], 1e-4) << i;
    }
  }
}

// Whole numbers are the same in all types.
TEST_P(NetworkConformanceTest, ValuesOfEveryTypeBecomeFloats) {
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
    BackendOptions options = 1;
    options.precision = precision;
    const auto tested = Make(model, weights, options);
    const auto result = TrainStep(tested->backend(), input, Ignore);
    EXPECT_TRUE(result.ok()) << result.status();
    return tested->Gradients();
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

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_NETWORK_CONFORMANCE_H_
