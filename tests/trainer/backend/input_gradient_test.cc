// Networks that are joined at their ends: gradients of inputs, and gradients of outputs that are
// given.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

constexpr char kPlain[] = R"(layer { input_layer { shape: [6, 6, 2] } }
    layer { convolution { filters: 4 kernel: 5 stride: 2 same: true } }
    layer { leaky_relu { slope: 0.2 } }
    layer { convolution { filters: 3 kernel: 3 padding: 1 } } layer { relu {} }
    layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} })";
constexpr char kSmooth[] = R"(layer { input_layer { shape: [6, 6, 2] } }
    layer { convolution { filters: 4 kernel: 5 stride: 2 same: true } } layer { tanh {} }
    layer { convolution { filters: 3 kernel: 3 padding: 1 } } layer { silu {} }
    layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} })";
constexpr char kNormed[] = R"(layer { input_layer { shape: [6, 6, 2] } }
    layer { convolution { filters: 4 kernel: 3 } } layer { batch_norm {} }
    layer { leaky_relu { slope: 0.2 } }
    layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} })";
constexpr char kInputHasTwoReaders[] = R"(layer { name: "in" input_layer { shape: [4, 4, 3] } }
    layer { name: "a" input: "in" convolution { filters: 3 kernel: 3 padding: 1 } }
    layer { name: "sum" input: ["a", "in"] add {} } layer { tanh {} }
    layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} })";

// A model with its tensors and a network of it.
struct Compiled {
  Compiled(const Model& of, int64_t rows, NetworkUse use)
      : model(of),
        weights(MakeInitialWeights(model, 5)),
        buffers(MakeInitialBuffers(model)),
        gradients(MakeZeros(model)) {
    auto made = MakeOneDnnBackend(model, weights, buffers, Spans(gradients), 2);
    EXPECT_TRUE(made.ok()) << made.status();
    backend = *std::move(made);
    const auto compiled = backend->Compile(rows, use);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    network = *compiled;
  }
  double Loss(const StepInput& input) const {
    const auto result = ForwardResult(*network, input);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->loss_sum : 0;
  }

  const Model model;
  TensorSet weights;
  TensorSet buffers;
  TensorSet gradients;
  std::unique_ptr<Backend> backend;
  Network* network = nullptr;
};

std::vector<float> Copy(const absl::StatusOr<std::span<const float>>& values) {
  EXPECT_TRUE(values.ok()) << values.status();
  return {values->begin(), values->end()};
}

TEST(InputGradientTest, IsTheDifferenceOfTheLoss) {
  for (const char* const text : {kSmooth, kNormed, kInputHasTwoReaders}) {
    SCOPED_TRACE(text);
    const Compiled compiled(MakeModel(text), 5, NetworkUse::kInputGradients);
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

TEST(InputGradientTest, IsTheSameWithoutThoseOfParametersAndThoseStayTheSame) {
  for (const char* const text : {kPlain, kNormed, kInputHasTwoReaders}) {
    SCOPED_TRACE(text);
    Compiled compiled(MakeModel(text), 4, NetworkUse::kInputGradients);
    const Samples samples(compiled.model, 4, 1, 3);
    compiled.Loss(samples.All());
    const std::vector<float> first =
        LossGradient(compiled.model, *compiled.network, 0, samples.All());
    ASSERT_TRUE(compiled.network->Backward({}).ok());
    const std::vector<float> inputs = Copy(compiled.network->input_gradient(0));
    ASSERT_TRUE(compiled.network->SetOutputGradient(0, first).ok());
    ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
    EXPECT_EQ(Copy(compiled.network->input_gradient(0)), inputs);

    Compiled plain(compiled.model, 4, NetworkUse::kTraining);
    plain.Loss(samples.All());
    ASSERT_TRUE(plain.network->Backward(Ignore).ok());
    EXPECT_EQ(compiled.gradients, plain.gradients);
  }
}

// The loss is the sum of the outputs, each times its given gradient.
TEST(InputGradientTest, AGivenGradientTakesThePlaceOfALoss) {
  const Model model = MakeModel(R"(layer { input_layer { field: "noise" shape: 5 } }
      layer { fully_connected { outputs: 12 } } layer { reshape { shape: [2, 2, 3] } }
      layer { transposed_convolution { filters: 2 kernel: 3 stride: 2 } }
      layer { name: "made" tanh {} })",
                                ModelEnd::kOutput);
  Compiled compiled(model, 3, NetworkUse::kTraining);
  const Samples samples(model, 3, 1, 8);
  EXPECT_EQ(compiled.Loss(samples.All()), 0);
  const size_t size = Copy(compiled.network->output(0)).size();
  ASSERT_EQ(size, 3u * model.losses[0].shape.num_elements());
  std::vector<float> given(size);
  for (size_t k = 0; k < size; ++k) given[k] = static_cast<float>(k % 5) - 2;
  ASSERT_TRUE(compiled.network->SetOutputGradient(0, given).ok());
  ASSERT_TRUE(compiled.network->Backward(Ignore).ok());
  const TensorSet gradients = compiled.gradients;
  const auto loss = [&] {
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

}  // namespace
}  // namespace millrace::trainer
