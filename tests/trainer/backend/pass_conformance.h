#ifndef MILLRACE_TESTS_TRAINER_BACKEND_PASS_CONFORMANCE_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_PASS_CONFORMANCE_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/backend_conformance.h"
#include "tests/trainer/backend/nets.h"
#include "trainer/backend/loss.h"

// What the passes of a network leave for others: outputs, losses, statistics, gradients of inputs,
// and gradients of outputs that are given. Every backend instantiates these tests.

namespace millrace::trainer {

// A model with its tensors and a network of it.
struct CompiledModel {
  CompiledModel(const BackendCase& kind, const Model& of, int64_t rows, NetworkUse use,
                const BackendOptions& options = 2)
      : model(of), weights(MakeInitialWeights(model, 5)) {
    auto made = kind.make(model, weights, MakeInitialBuffers(model), options);
    EXPECT_TRUE(made.ok()) << made.status();
    tested = *std::move(made);
    const auto compiled = tested->backend().Compile(rows, use);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    network = *compiled;
  }
  StepResult Result(const StepInput& input) const {
    const auto result = ForwardResult(*network, input);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(StepResult());
  }
  double Loss(const StepInput& input) const { return Result(input).loss_sum; }

  const Model model;
  TensorSet weights;
  std::unique_ptr<TestedBackend> tested;
  Network* network = nullptr;
};

inline std::vector<float> Copy(const absl::StatusOr<std::span<const float>>& values) {
  EXPECT_TRUE(values.ok()) << values.status();
  return {values->begin(), values->end()};
}

class PassConformanceTest : public BackendConformanceTest {
 protected:
  static CompiledModel Compile(const Model& model, int64_t rows, NetworkUse use,
                               const BackendOptions& options = 2) {
    return CompiledModel(GetParam(), model, rows, use, options);
  }
};

TEST_P(PassConformanceTest, TheGradientOfAnInputIsTheDifferenceOfTheLoss) {
  for (const char* const text : {kSmooth, kNormed, kInputHasTwoReaders}) {
    SCOPED_TRACE(text);
    const CompiledModel compiled = Compile(MakeModel(text), 5, NetworkUse::kInputGradients);
    Samples samples(compiled.model, 5, 1, 3);
    compiled.Loss(samples.All());
    ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
    const std::vector<float> gradient = Copy(compiled.network->input_gradient(0));
    ASSERT_EQ(gradient.size(), samples.images.size());
    const float largest = *std::ranges::max_element(gradient);
    ASSERT_GT(largest, 0);
    constexpr float kStep = 1.0f / 256;
    for (size_t k = 0; k < gradient.size(); k += 7) {
      const float saved = samples.images[k];
      samples.images[k] = saved + kStep;
      const double high = compiled.Loss(samples.All());
      samples.images[k] = saved - kStep;
      const double low = compiled.Loss(samples.All());
      samples.images[k] = saved;
      const double expected = (high - low) / (2.0 * kStep) / 4;  // of four valid rows
      EXPECT_NEAR(gradient[k], expected, 0.02 * largest) << k;
    }
  }
}

TEST_P(PassConformanceTest, GradientsOfInputsNeedNoneOfParametersAndLeaveThem) {
  for (const char* const text : {kPlain, kNormed, kInputHasTwoReaders}) {
    SCOPED_TRACE(text);
    const CompiledModel compiled = Compile(MakeModel(text), 4, NetworkUse::kInputGradients);
    const Samples samples(compiled.model, 4, 1, 3);
    compiled.Loss(samples.All());
    ASSERT_TRUE(compiled.network->Backward({}).ok());
    const std::vector<float> inputs = Copy(compiled.network->input_gradient(0));
    ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
    EXPECT_EQ(Copy(compiled.network->input_gradient(0)), inputs);

    const CompiledModel plain = Compile(compiled.model, 4, NetworkUse::kTraining);
    plain.Loss(samples.All());
    ASSERT_TRUE(plain.network->Backward(Ignore).ok());
    EXPECT_EQ(compiled.tested->Gradients(), plain.tested->Gradients());
  }
}

// The loss is the sum of the outputs, each times its given gradient.
TEST_P(PassConformanceTest, AGivenGradientTakesThePlaceOfALoss) {
  const Model model = MakeModel(R"(layer { input_layer { field: "noise" shape: 5 } }
      layer { fully_connected { outputs: 12 } } layer { reshape { shape: [2, 2, 3] } }
      layer { transposed_convolution { filters: 2 kernel: 3 stride: 2 } }
      layer { name: "made" tanh {} })",
                                ModelEnd::kOutput);
  CompiledModel compiled = Compile(model, 3, NetworkUse::kTraining);
  const Samples samples(model, 3, 1, 8);
  EXPECT_EQ(compiled.Loss(samples.All()), 0);
  const size_t size = Copy(compiled.network->output(0)).size();
  ASSERT_EQ(size, 3u * model.losses[0].shape.num_elements());
  std::vector<float> given(size);
  for (size_t k = 0; k < size; ++k) given[k] = static_cast<float>(k % 5) - 2;
  ASSERT_TRUE(compiled.network->SetOutputGradient(0, given).ok());
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  const TensorSet gradients = compiled.tested->Gradients();
  const auto loss = [&] {
    compiled.tested->SetWeights(compiled.weights);
    compiled.Loss(samples.All());
    const std::vector<float> output = Copy(compiled.network->output(0));
    double sum = 0;
    for (size_t k = 0; k < size; ++k) sum += static_cast<double>(output[k]) * given[k];
    return sum;
  };
  constexpr float kStep = 1.0f / 256;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const float largest = *std::ranges::max_element(gradients[i]);
    for (size_t k = 0; k < gradients[i].size(); k += 3) {
      const float saved = compiled.weights[i][k];
      compiled.weights[i][k] = saved + kStep;
      const double high = loss();
      compiled.weights[i][k] = saved - kStep;
      const double low = loss();
      compiled.weights[i][k] = saved;
      EXPECT_NEAR(gradients[i][k], (high - low) / (2.0 * kStep), 0.02 * largest)
          << model.parameters[i].name << "[" << k << "]";
    }
  }
}

// The discriminator of an adversarial step: one forward pass, several backward ones.
TEST_P(PassConformanceTest, ABackwardPassMayRunAgainFromAnotherGradient) {
  const CompiledModel compiled = Compile(MakeModel(kNormed), 4, NetworkUse::kInputGradients);
  const Samples samples(compiled.model, 4, 1, 3);
  compiled.Loss(samples.All());
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  const TensorSet by_loss = compiled.tested->Gradients();
  std::vector<float> given = LossGradient(compiled.model, *compiled.network, 0, samples.All());
  ASSERT_TRUE(compiled.network->SetOutputGradient(0, given).ok());
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  const TensorSet first = compiled.tested->Gradients();
  const std::vector<float> inputs = Copy(compiled.network->input_gradient(0));
  for (float& value : given) value *= 2;
  ASSERT_TRUE(compiled.network->SetOutputGradient(0, given).ok());
  EXPECT_EQ(compiled.network->FirstNonFinite(), "");
  EXPECT_EQ(Copy(compiled.network->input_gradient(0)), inputs);
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  const TensorSet second = compiled.tested->Gradients();
  for (size_t i = 0; i < first.size(); ++i) {
    for (size_t k = 0; k < first[i].size(); ++k) EXPECT_EQ(second[i][k], 2 * first[i][k]);
  }
  compiled.Loss(samples.All());
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  EXPECT_EQ(compiled.tested->Gradients(), by_loss) << "the loss gives its own gradient again";
}

// --- Losses ---

inline void ExpectResult(const StepResult& actual, const StepResult& expected) {
  EXPECT_NEAR(actual.loss_sum, expected.loss_sum, 1e-5 * (1 + std::abs(expected.loss_sum)));
  EXPECT_NEAR(actual.error_sum, expected.error_sum, 1e-5 * (1 + expected.error_sum));
  EXPECT_EQ(actual.correct, expected.correct);
  EXPECT_EQ(actual.in_top5, expected.in_top5);
  EXPECT_EQ(actual.valid, expected.valid);
}

// By the losses of the host, of the outputs that the network has.
TEST_P(PassConformanceTest, LossesAndMetricsAreThoseOfTheOutputs) {
  const std::string body = R"(layer { input_layer { shape: 6 } }
      layer { name: "o" fully_connected { outputs: 9 } } layer { )";
  std::vector<float> values(8 * 9);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 5) / 4;
  for (const char* const loss :
       {"softmax_cross_entropy {}", "softmax_cross_entropy { label_smoothing: 0.2 weight: 3 }",
        "sigmoid_cross_entropy { weight: 0.5 }", "mean_squared_error { weight: 2 }",
        "mean_absolute_error {}"}) {
    SCOPED_TRACE(loss);
    const Model model = MakeModel(body + loss + " }");
    for (const bool has_values : {false, true}) {
      const Samples samples(model, 8, 3, 6);
      StepInput input = samples.All();
      std::vector<int32_t> labels(samples.labels.begin(), samples.labels.end());
      input.targets[0] = {labels.data(), DType::kI32, Shape{8}};
      if (has_values) input.targets[0] = {values.data(), DType::kF32, Shape{8, 9}};
      if (!CheckStepInput(model, input).ok()) continue;  // the loss takes no such targets
      const CompiledModel compiled = Compile(model, 8, NetworkUse::kTraining);
      const StepResult result = compiled.Result(input);
      const std::vector<float> output = Copy(compiled.network->output(0));
      std::vector<float> gradient(output.size());
      ExpectResult(result, ComputeLoss(model.losses[0], output, input.targets[0], input, gradient));
      ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
      const TensorSet made = compiled.tested->Gradients();
      ASSERT_TRUE(compiled.network->SetOutputGradient(0, gradient).ok());
      ASSERT_EQ(made.size(), 2u);
      for (int64_t k = 0; k < 9; ++k) {  // the gradient of the bias is the sum of its column
        double sum = 0;
        for (int64_t row = 0; row < 8; ++row) sum += gradient[row * 9 + k];
        EXPECT_NEAR(made[1][k], sum, 1e-6) << k;
      }
    }
  }
}

TEST_P(PassConformanceTest, ALossScaleIsTakenOutOfGradientsOfParametersAlone) {
  const Model model = MakeModel(kEveryLayer);
  const Samples samples(model, 4, 1, 3);
  const CompiledModel compiled = Compile(model, 4, NetworkUse::kInputGradients);
  StepInput input = samples.All();
  const double loss = compiled.Loss(input);
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  const TensorSet plain = compiled.tested->Gradients();
  const std::vector<float> inputs = Copy(compiled.network->input_gradient(0));
  input.loss_scale = 1024;
  EXPECT_EQ(compiled.Loss(input), loss);
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  const TensorSet scaled = compiled.tested->Gradients();
  const std::vector<float> scaled_inputs = Copy(compiled.network->input_gradient(0));
  for (size_t i = 0; i < plain.size(); ++i) {
    for (size_t k = 0; k < plain[i].size(); ++k) {
      ASSERT_NEAR(scaled[i][k], plain[i][k], 1e-6) << model.parameters[i].name << " " << k;
    }
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    ASSERT_NEAR(scaled_inputs[k], 1024 * inputs[k], 1e-3) << k;
  }
}

TEST_P(PassConformanceTest, ABatchOfPaddingHasNoGradients) {
  const Model model = MakeModel(kEveryLayer);
  const CompiledModel compiled = Compile(model, 3, NetworkUse::kTraining);
  const Samples padding(model, 3, 3, 1);
  const StepResult result = compiled.Result(padding.All());
  EXPECT_EQ(result.valid, 0);
  EXPECT_EQ(result.loss_sum, 0);
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  for (const std::vector<float>& gradient : compiled.tested->Gradients()) {
    EXPECT_THAT(gradient, ::testing::Each(0.0f));
  }
}

// --- Evaluation and prediction ---

TEST_P(PassConformanceTest, AnEvaluationNormalizesByTheRunningStatistics) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [2, 2, 2] } }
      layer { name: "n" batch_norm { epsilon: 0.5 } } layer { relu {} } layer { reshape {} }
      layer { name: "o" fully_connected { outputs: 8 bias: false } }
      layer { softmax_cross_entropy {} })");
  TensorSet weights = MakeZeros(model);
  weights[0] = {2, -1};
  weights[1] = {0.5f, 3};
  for (size_t i = 0; i < 8; ++i) weights[2][i * 9] = 1;
  const TensorSet buffers = {{0.25f, -0.5f}, {1.75f, 0.5f}};
  const Samples samples(model, 3, 1, 2);
  const auto tested = Make(model, weights, buffers, 2);
  ASSERT_NE(tested, nullptr);
  const auto network = tested->backend().Compile(3, NetworkUse::kEvaluation);
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_TRUE(ForwardResult(**network, samples.All()).ok());
  const std::vector<float> output = Copy((*network)->output(0));
  ASSERT_EQ(output.size(), samples.images.size());
  for (size_t i = 0; i < output.size(); ++i) {
    const size_t c = i % 2;
    const double deviation = std::sqrt(buffers[1][c] + 0.5);
    const double y =
        (samples.images[i] - buffers[0][c]) / deviation * weights[0][c] + weights[1][c];
    EXPECT_NEAR(output[i], std::max(0.0, y), 1e-5) << i;
  }
}

TEST_P(PassConformanceTest, APredictionHasTheOutputsOfAnEvaluation) {
  const Model model = MakeModel(kEveryLayer);
  const Samples samples(model, 3, 1, 2);
  const CompiledModel evaluation = Compile(model, 3, NetworkUse::kEvaluation);
  const CompiledModel prediction = Compile(model, 3, NetworkUse::kPrediction);
  StepInput input = samples.All();
  EXPECT_EQ(evaluation.Result(input).valid, 2);
  EXPECT_EQ(prediction.network->Forward(input).code(), absl::StatusCode::kInvalidArgument);
  input.targets.clear();
  EXPECT_EQ(prediction.Result(input).valid, 0);
  for (size_t i = 0; i < model.losses.size(); ++i) {
    EXPECT_EQ(Copy(prediction.network->output(i)), Copy(evaluation.network->output(i)));
  }
}

// --- Fusion and precision ---

inline double NormOf(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

// Relative to the tensor's norm; some tensors are nothing but rounding errors of others.
inline void ExpectClose(const TensorSet& actual, const TensorSet& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    std::vector<float> difference = actual[i];
    std::ranges::transform(difference, expected[i], difference.begin(), std::minus<>());
    EXPECT_LE(NormOf(difference), tolerance * NormOf(expected[i]) + tolerance / 20) << i;
  }
}

TEST_P(PassConformanceTest, FusedLayersComputeWhatTheLayersDo) {
  const Model model = MakeModel(kEveryLayer);
  const Samples samples(model, 5, 1, 3);
  BackendOptions options(2);
  const CompiledModel fused = Compile(model, 5, NetworkUse::kTraining, options);
  options.fuses = false;
  const CompiledModel apart = Compile(model, 5, NetworkUse::kTraining, options);
  EXPECT_NEAR(fused.Loss(samples.All()), apart.Loss(samples.All()), 1e-5);
  ASSERT_TRUE(fused.network->Backward(Ignore).ok());
  ASSERT_TRUE(apart.network->Backward(Ignore).ok());
  ExpectClose(fused.tested->Gradients(), apart.tested->Gradients(), 1e-4);
}

// A value's relative error is 2^-9, or 2^-12; layers add theirs up, and a ReLU may change its mind.
TEST_P(PassConformanceTest, HalfPrecisionIsCloseToFloat32) {
  const Model model = MakeModel(kTransposed);
  const Samples samples(model, 5, 1, 3);
  const CompiledModel exact = Compile(model, 5, NetworkUse::kTraining);
  StepInput input = samples.All();
  const double loss = exact.Loss(input);
  ASSERT_TRUE(exact.network->Backward(Ignore).ok());
  const TensorSet expected = exact.tested->Gradients();
  for (const auto& [precision, tolerance] :
       {std::pair(Precision::kBFloat16, 0.1), std::pair(Precision::kFloat16, 0.02)}) {
    BackendOptions options(2);
    options.precision = precision;
    const auto made =
        GetParam().make(model, exact.weights, MakeInitialBuffers(model), options).status();
    if (absl::IsInvalidArgument(made)) continue;  // the processor has none
    const CompiledModel half = Compile(model, 5, NetworkUse::kTraining, options);
    input.loss_scale = precision == Precision::kFloat16 ? 256 : 1;
    EXPECT_NEAR(half.Loss(input), loss, tolerance * loss);
    ASSERT_TRUE(half.network->Backward(Ignore).ok());
    const TensorSet actual = half.tested->Gradients();
    ExpectClose(actual, expected, tolerance);
    EXPECT_NE(actual, expected);
  }
}

// --- Values that are not finite ---

TEST_P(PassConformanceTest, TheFirstLayerThatIsNotFiniteIsFound) {
  const Model model = MakeModel(kEveryLayer);
  CompiledModel compiled = Compile(model, 3, NetworkUse::kTraining);
  Samples samples(model, 3, 0, 2);
  compiled.Loss(samples.All());
  EXPECT_EQ(compiled.network->FirstNonFinite(), "");
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  const TensorSet gradients = compiled.tested->Gradients();
  EXPECT_EQ(compiled.network->FirstNonFinite(), "");
  ASSERT_TRUE(ForwardResult(*compiled.network, samples.All()).ok());
  EXPECT_EQ(compiled.network->FirstNonFinite(), "");
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  EXPECT_EQ(compiled.tested->Gradients(), gradients) << "to look changes nothing";

  for (size_t i = 0; i < model.parameters.size(); ++i) {
    if (model.parameters[i].name != "down/bias") continue;
    compiled.weights[i][1] = std::numeric_limits<float>::infinity();
  }
  compiled.tested->SetWeights(compiled.weights);
  ASSERT_TRUE(ForwardResult(*compiled.network, samples.All()).ok());
  EXPECT_EQ(compiled.network->FirstNonFinite(), "down");
  samples.images[7] = std::nanf("");
  ASSERT_TRUE(ForwardResult(*compiled.network, samples.All()).ok());
  EXPECT_EQ(compiled.network->FirstNonFinite(), "in");
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_PASS_CONFORMANCE_H_
