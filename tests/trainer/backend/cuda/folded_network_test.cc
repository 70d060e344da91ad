// Networks whose first convolution reads a folded image are those that read it as it is: for
// gradients of a float32 image nothing is folded, so the same network is compiled both ways.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/tested_device.h"
#include "tests/trainer/backend/nets.h"
#include "trainer/backend/cuda/network.h"

namespace millrace::trainer::cuda {
namespace {

using testing::Contains;
using testing::Not;

constexpr int64_t kRows = 3;
constexpr char kBehindStem[] = R"(
    layer { name: "n" batch_norm {} } layer { name: "r" relu {} }
    layer { name: "p" pool { kind: AVERAGE kernel: 2 } }
    layer { name: "classes" fully_connected { outputs: 4 } } layer { softmax_cross_entropy {} })";

std::string StemOf(const std::string& input) {
  return "layer { name: 'in' input_layer { shape: [12, 8, 3] " + input + R"( } }
    layer { name: "stem" convolution { filters: 8 kernel: 7 stride: 2 padding: 3 bias: false } })" +
         kBehindStem;
}

struct Outcome {
  double loss = 0;
  TensorSet gradients;
};

class FoldedNetworkTest : public ::testing::TestWithParam<Precision> {
 protected:
  static std::unique_ptr<TestedBackend> Make(const Model& model, const NetworkOptions& more = {}) {
    BackendOptions options(1);
    options.precision = GetParam();
    auto made = TestedDevice::Make(model, MakeInitialWeights(model, 3), MakeInitialBuffers(model),
                                   options, more);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  static StepInput InputOf(const Samples& samples) {
    StepInput input = samples.All();
    input.loss_scale = GetParam() == Precision::kFloat16 ? 256 : 1;
    return input;
  }
  static Outcome Run(TestedBackend& tested, const StepInput& input,
                     NetworkUse use = NetworkUse::kTraining) {
    const auto network = tested.backend().Compile(kRows, use);
    EXPECT_TRUE(network.ok()) << network.status();
    EXPECT_TRUE((*network)->Forward(input).ok());
    EXPECT_TRUE((*network)->Backward(Ignore).ok());
    const auto result = (*network)->Result();
    EXPECT_TRUE(result.ok()) << result.status();
    return {result->loss_sum, tested.Gradients()};
  }
  static std::vector<std::string> Operations(const Model& model, NetworkUse use) {
    const auto tested = Make(model);
    const auto network = tested->backend().Compile(kRows, use);
    EXPECT_TRUE(network.ok()) << network.status();
    const Program& program = static_cast<DeviceNetwork*>(*network)->program();
    std::vector<std::string> names;
    const auto add = [&](const Segment& segment) {
      for (const Operation& operation : segment.operations) names.push_back(operation.name);
    };
    add(program.inputs);
    std::ranges::for_each(program.forward, add);
    return names;
  }
};

INSTANTIATE_TEST_SUITE_P(Types, FoldedNetworkTest,
                         testing::Values(Precision::kBFloat16, Precision::kFloat16),
                         [](const auto& precision) {
                           return precision.param == Precision::kFloat16 ? "float16" : "bfloat16";
                         });

double NormOf(const std::vector<float>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

void ExpectClose(const Outcome& actual, const Outcome& expected, double tolerance) {
  EXPECT_NEAR(actual.loss, expected.loss, tolerance * expected.loss);
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    std::vector<float> difference = actual.gradients[i];
    for (size_t k = 0; k < difference.size(); ++k) difference[k] -= expected.gradients[i][k];
    EXPECT_LE(NormOf(difference), tolerance * (NormOf(expected.gradients[i]) + 0.05)) << i;
  }
}

// The stand-in's sums are of float64, so few values are rounded otherwise.
TEST_P(FoldedNetworkTest, GradientsAreThoseOfTheImage) {
  for (const std::string& text : {StemOf(""), std::string(kTwoStems)}) {
    const Model model = MakeModel(text);
    const auto tested = Make(model);
    const Samples samples(model, kRows, 1, 5);
    const StepInput input = InputOf(samples);
    const Outcome plain = Run(*tested, input, NetworkUse::kInputGradients);
    EXPECT_GT(NormOf(plain.gradients[0]), 0.01);
    ExpectClose(Run(*tested, input), plain, 1e-3);
  }
}

TEST_P(FoldedNetworkTest, GradientsAreCloseToFloat32) {
  for (const std::string& text : {StemOf(""), std::string(kTwoStems)}) {
    const Model model = MakeModel(text);
    const Samples samples(model, kRows, 1, 5);
    const auto exact = TestedOneDnn::Make(model, MakeInitialWeights(model, 3),
                                          MakeInitialBuffers(model), BackendOptions(1));
    ASSERT_TRUE(exact.ok()) << exact.status();
    ExpectClose(Run(*Make(model), InputOf(samples)), Run(**exact, samples.All()), 0.1);
  }
}

// Bits are those of an image that the host has normalised.
TEST_P(FoldedNetworkTest, BytesAreNormalisedByChannel) {
  const Model floats = MakeModel(StemOf(""));
  const Model bytes = MakeModel(StemOf("dtype: 'uint8' mean: [10, 20, 30] stddev: [2, 4, 8]"));
  Samples samples(floats, kRows, 1, 5);
  std::vector<uint8_t> pixels(samples.images.size());
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<uint8_t>(37 * i);
    const auto c = static_cast<int>(i % 3);
    samples.images[i] = (static_cast<float>(pixels[i]) - 10.0f * static_cast<float>(c + 1)) /
                        static_cast<float>(2 << c);
  }
  StepInput input = InputOf(samples);
  const Outcome expected = Run(*Make(floats), input);
  input.inputs[0] = {pixels.data(), DType::kU8, Shape{kRows, 12, 8, 3}};
  const Outcome actual = Run(*Make(bytes), input);
  EXPECT_EQ(actual.loss, expected.loss);
  EXPECT_EQ(actual.gradients, expected.gradients);
}

TEST_P(FoldedNetworkTest, CapturedOrInMemoryOfItsOwnItHasTheSameBits) {
  const Model model = MakeModel(kTwoStems);
  const Samples samples(model, kRows, 0, 5);
  const StepInput input = InputOf(samples);
  const Outcome expected = Run(*Make(model), input);
  const auto captured = Make(model, {.captures = true});
  Run(*captured, input);
  EXPECT_EQ(Run(*captured, input).gradients, expected.gradients);
  const auto apart = Make(model, {.recycles = false});
  EXPECT_EQ(Run(*apart, input).gradients, expected.gradients);
}

TEST_P(FoldedNetworkTest, AnImageThatIsReadFoldedAloneIsNotConverted) {
  const Model model = MakeModel(StemOf(""));
  const auto folded = Operations(model, NetworkUse::kTraining);
  EXPECT_THAT(folded, Contains("in: fold"));
  EXPECT_THAT(folded, Contains("stem: fold weights"));
  EXPECT_THAT(folded, Not(Contains("in: convert")));
  const auto plain = Operations(model, NetworkUse::kInputGradients);
  EXPECT_THAT(plain, Contains("in: convert"));
  EXPECT_THAT(plain, Not(Contains("in: fold")));
}

TEST_P(FoldedNetworkTest, OtherLayersReadTheImageAsItIs) {
  const auto both = Operations(MakeModel(kTwoStems), NetworkUse::kEvaluation);
  for (const char* const name :
       {"in: fold", "in: convert", "stem: fold weights", "other: fold weights"}) {
    EXPECT_EQ(std::ranges::count(both, name), 1) << name;
  }
}

TEST_P(FoldedNetworkTest, AnImageThatIsNotFiniteIsNamed) {
  for (const std::string& text : {StemOf(""), std::string(kTwoStems)}) {
    const Model model = MakeModel(text);
    const auto tested = Make(model);
    Samples samples(model, kRows, 0, 5);
    const auto network = tested->backend().Compile(kRows, NetworkUse::kTraining);
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_TRUE((*network)->Forward(InputOf(samples)).ok());
    EXPECT_EQ((*network)->FirstNonFinite(), "");
    samples.images[100] = std::numeric_limits<float>::infinity();
    ASSERT_TRUE((*network)->Forward(InputOf(samples)).ok());
    EXPECT_EQ((*network)->FirstNonFinite(), "in");
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
