// Trainings of some steps on a device that the host stands in for, against the CPU's.

#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/tested_device.h"

namespace millrace::trainer::cuda {
namespace {

constexpr char kLeNet[] = R"(layer { input_layer { shape: [28, 28, 1] } }
    layer { convolution { filters: 6 kernel: 5 padding: 2 } } layer { relu {} }
    layer { pool { kernel: 2 } }
    layer { convolution { filters: 16 kernel: 5 } } layer { relu {} } layer { pool { kernel: 2 } }
    layer { fully_connected { outputs: 120 } } layer { relu {} }
    layer { fully_connected { outputs: 84 } } layer { relu {} }
    layer { fully_connected { outputs: 10 } } layer { softmax_cross_entropy {} })";

// Two blocks, the second with a shortcut that shrinks the image.
constexpr char kResNet[] = R"(layer { name: "in" input_layer { shape: [16, 16, 3] } }
    layer { name: "stem" convolution { filters: 8 kernel: 3 padding: 1 bias: false } }
    layer { name: "n" batch_norm {} } layer { name: "r" relu {} }
    layer { name: "p" pool { kernel: 3 stride: 2 padding: 1 } }
    layer { name: "c1" convolution { filters: 8 kernel: 3 padding: 1 bias: false } }
    layer { batch_norm {} } layer { relu {} }
    layer { name: "c2" convolution { filters: 8 kernel: 3 padding: 1 bias: false } }
    layer { name: "n2" batch_norm {} }
    layer { name: "s1" input: ["n2", "p"] add {} } layer { name: "r1" relu {} }
    layer { name: "down" input: "r1" convolution { filters: 16 kernel: 1 stride: 2 bias: false } }
    layer { name: "nd" batch_norm {} }
    layer { name: "c3" input: "r1" convolution { filters: 16 kernel: 3 stride: 2 padding: 1
      bias: false } }
    layer { batch_norm {} } layer { relu {} }
    layer { name: "c4" convolution { filters: 16 kernel: 3 padding: 1 bias: false } }
    layer { name: "n4" batch_norm {} }
    layer { input: ["n4", "nd"] add {} } layer { relu {} } layer { global_average_pool {} }
    layer { fully_connected { outputs: 10 } } layer { softmax_cross_entropy {} })";

constexpr int kSteps = 20;
constexpr int64_t kRows = 8;

struct Training {
  std::vector<double> losses;  // by step
  TensorSet weights;           // at the end

  friend bool operator==(const Training&, const Training&) = default;
};

// Plain SGD on the same samples in every step.
Training Train(const Model& model, TestedBackend& tested, float rate) {
  Training training;
  training.weights = MakeInitialWeights(model, 11);
  const Samples samples(model, kRows, 1, 12);
  const auto network = tested.backend().Compile(kRows, NetworkUse::kTraining);
  EXPECT_TRUE(network.ok()) << network.status();
  for (uint64_t step = 0; step < kSteps; ++step) {
    StepInput input = samples.All();
    input.step = step;
    EXPECT_TRUE((*network)->Forward(input).ok());
    EXPECT_TRUE((*network)->Backward(Ignore).ok());
    const auto result = (*network)->Result();
    EXPECT_TRUE(result.ok()) << result.status();
    training.losses.push_back(result->loss_sum);
    const TensorSet gradients = tested.Gradients();
    for (size_t i = 0; i < gradients.size(); ++i) {
      for (size_t k = 0; k < gradients[i].size(); ++k) {
        training.weights[i][k] -= rate * gradients[i][k];
      }
    }
    tested.SetWeights(training.weights);
  }
  return training;
}

class DeviceTrainingTest : public ::testing::TestWithParam<const char*> {
 protected:
  Training OnDevice(const BackendOptions& options, const NetworkOptions& more = {}) {
    const auto tested = TestedDevice::Make(model_, MakeInitialWeights(model_, 11),
                                           MakeInitialBuffers(model_), options, more);
    EXPECT_TRUE(tested.ok()) << tested.status();
    return Train(model_, **tested, rate_);
  }
  Training OnCpu() {
    const auto tested =
        TestedOneDnn::Make(model_, MakeInitialWeights(model_, 11), MakeInitialBuffers(model_), 2);
    EXPECT_TRUE(tested.ok()) << tested.status();
    return Train(model_, **tested, rate_);
  }

  const Model model_ = MakeModel(GetParam());
  const float rate_ = 0.05f;
};

// Roundings of one step are amplified by those behind it.
TEST_P(DeviceTrainingTest, TheLossFallsAsOnTheCpu) {
  const Training expected = OnCpu();
  const Training actual = OnDevice(1);
  EXPECT_LT(actual.losses.back(), 0.5 * actual.losses.front());
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], 1e-3 * expected.losses[0]) << step;
  }
}

TEST_P(DeviceTrainingTest, GraphsAndARepetitionHaveTheSameBits) {
  const Training expected = OnDevice(1);
  EXPECT_EQ(OnDevice(1), expected);
  EXPECT_EQ(OnDevice(1, {.captures = true}), expected);
}

TEST_P(DeviceTrainingTest, HalfPrecisionLearnsToo) {
  const double exact = OnDevice(1).losses.back();
  for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
    BackendOptions options(1);
    options.precision = precision;
    const Training half = OnDevice(options);
    EXPECT_LT(half.losses.back(), 0.5 * half.losses.front());
    EXPECT_NEAR(half.losses.back(), exact, 0.1 * half.losses.front());
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, DeviceTrainingTest, ::testing::Values(kLeNet, kResNet),
                         [](const auto& net) { return net.index == 0 ? "LeNet" : "ResNet"; });

}  // namespace
}  // namespace millrace::trainer::cuda
