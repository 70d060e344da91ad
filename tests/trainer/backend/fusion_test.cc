// Layers that a batch norm does, and bfloat16, against every layer by itself in float32.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

// All ways of a batch norm: with a ReLU and two readers, with a sum and without a ReLU, with the
// sum of another norm, and with a sum whose other term is a pool's, or the input's.
constexpr char kBlocks[] = R"(
    layer { name: "in" input_layer { shape: [8, 8, 8] } }
    layer { name: "n0" input: "in" batch_norm {} }
    layer { name: "a0" input: ["n0", "in"] add {} }
    layer { name: "stem" convolution { filters: 8 kernel: 3 padding: 1 bias: false } }
    layer { name: "n1" batch_norm {} } layer { name: "r1" relu {} }
    layer { name: "pool" pool { kernel: 2 } }
    layer { name: "c2" input: "pool" convolution { filters: 8 kernel: 1 bias: false } }
    layer { name: "n2" batch_norm {} }
    layer { name: "a2" input: ["pool", "n2"] add {} } layer { name: "r2" relu {} }
    layer { name: "down" input: "r2" convolution { filters: 16 kernel: 1 stride: 2 bias: false } }
    layer { name: "nd" batch_norm {} }
    layer { name: "c3" input: "r2" convolution { filters: 16 kernel: 3 stride: 2 padding: 1 } }
    layer { name: "n3" batch_norm {} }
    layer { name: "a3" input: ["n3", "nd"] add {} } layer { name: "r3" relu {} }
    layer { name: "c4" convolution { filters: 16 kernel: 1 bias: false } }
    layer { name: "n4" batch_norm {} }
    layer { name: "a4" input: ["n4", "r3"] add {} } layer { name: "r4" relu {} }
    layer { name: "c5" convolution { filters: 16 kernel: 1 bias: false } }
    layer { name: "n5" batch_norm {} }
    layer { name: "a5" input: ["n5", "r4"] add {} }
    layer { name: "c6" convolution { filters: 16 kernel: 1 bias: false } }
    layer { batch_norm {} } layer { name: "r6" relu {} }
    layer { name: "a6" input: ["r6", "a5"] add {} } layer { relu {} }
    layer { global_average_pool {} } layer { dropout { rate: 0.2 } }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })";

struct Outcome {
  StepResult trained;
  StepResult evaluated;
  TensorSet gradients;
  TensorSet statistics;
};

Outcome RunStep(const Model& model, const Samples& samples, const BackendOptions& options) {
  const TensorSet weights = MakeInitialWeights(model, 3);
  const TensorSet buffers = MakeInitialBuffers(model);
  Outcome outcome;
  outcome.gradients = MakeZeros(model);
  const auto backend =
      MakeOneDnnBackend(model, weights, buffers, Spans(outcome.gradients), options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  const auto trained = TrainStep(**backend, samples.All(), Ignore);
  EXPECT_TRUE(trained.ok()) << trained.status();
  const auto evaluated = EvaluateStep(**backend, samples.All());
  EXPECT_TRUE(evaluated.ok()) << evaluated.status();
  if (!trained.ok() || !evaluated.ok()) return outcome;
  outcome.trained = *trained;
  outcome.evaluated = *evaluated;
  const auto rows = static_cast<int64_t>(samples.labels.size());
  outcome.statistics = (*(*backend)->Compile(rows, NetworkUse::kTraining))->statistics();
  return outcome;
}

double NormOf(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

void ExpectClose(const TensorSet& actual, const TensorSet& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    std::vector<float> difference = actual[i];
    std::ranges::transform(difference, expected[i], difference.begin(), std::minus<>());
    EXPECT_LE(NormOf(difference), tolerance * NormOf(expected[i]) + tolerance / 20) << i;
  }
}

BackendOptions Unfused() {
  BackendOptions options(1);
  options.fuses = false;
  return options;
}

BackendOptions Half() {
  BackendOptions options(1);
  options.precision = Precision::kBFloat16;
  return options;
}

TEST(FusionTest, FusedLayersComputeWhatTheLayersDo) {
  const Model model = MakeModel(kBlocks);
  for (const int64_t padding : {0, 2}) {
    const Samples samples(model, 6, padding, 4);
    const Outcome expected = RunStep(model, samples, Unfused());
    const Outcome actual = RunStep(model, samples, 1);
    EXPECT_NEAR(actual.trained.loss_sum, expected.trained.loss_sum, 1e-4);
    EXPECT_NEAR(actual.evaluated.loss_sum, expected.evaluated.loss_sum, 1e-4);
    ExpectClose(actual.gradients, expected.gradients, 1e-4);
    ExpectClose(actual.statistics, expected.statistics, 1e-5);
  }
}

// A product that a fused sum adds, a batch norm's result that two of them add, and one that several
// losses read.
TEST(FusionTest, OtherReadersOfABatchNormGetAllOfTheirGradients) {
  for (const char* const layers :
       {R"(layer { name: "s" input: "in" convolution { filters: 8 kernel: 1 } }
           layer { input: "in" convolution { filters: 8 kernel: 3 padding: 1 } }
           layer { name: "n" batch_norm {} } layer { input: ["n", "s"] add {} }
           layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })",
        R"(layer { input: "in" convolution { filters: 8 kernel: 1 } }
           layer { name: "v" batch_norm {} }
           layer { input: "in" convolution { filters: 8 kernel: 1 } }
           layer { name: "b1" batch_norm {} } layer { name: "a1" input: ["b1", "v"] add {} }
           layer { input: "in" convolution { filters: 8 kernel: 1 } }
           layer { name: "b2" batch_norm {} } layer { name: "a2" input: ["b2", "v"] add {} }
           layer { input: ["a1", "a2"] concat {} }
           layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })",
        R"(layer { fully_connected { outputs: 3 } } layer { name: "r" batch_norm {} }
           layer { softmax_cross_entropy {} }
           layer { input: "r" softmax_cross_entropy { label_smoothing: 0.2 } })"}) {
    SCOPED_TRACE(layers);
    const Model model =
        MakeModel(absl::StrCat(R"(layer { name: "in" input_layer { shape: [8, 8, 8] } })", layers));
    const Samples samples(model, 6, 1, 4);
    const Outcome expected = RunStep(model, samples, Unfused());
    const Outcome actual = RunStep(model, samples, 2);
    EXPECT_NEAR(actual.evaluated.loss_sum, expected.evaluated.loss_sum, 1e-4);
    ExpectClose(actual.gradients, expected.gradients, 1e-4);
  }
}

// Windows that overlap, that leave pixels out, and that tile the image, behind a ReLU or not.
TEST(FusionTest, MaxPoolsGiveGradientsBehindTheReluBeforeThem) {
  for (const char* const pool : {"kernel: 2", "kernel: 3 stride: 2 padding: 1", "kernel: [2, 3]",
                                 "kernel: 1 stride: 2", "kernel: 17 stride: 1 padding: 16"}) {
    SCOPED_TRACE(pool);
    const Model model = MakeModel(std::string(R"(layer { input_layer { shape: [8, 8, 3] } }
        layer { convolution { filters: 20 kernel: 3 padding: 1 } } layer { relu {} }
        layer { pool { )") + pool +
                                  R"( } } layer { convolution { filters: 4 kernel: 1 } }
        layer { pool { kernel: 2 } }
        layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
    const Samples samples(model, 4, 1, 5);
    const Outcome expected = RunStep(model, samples, Unfused());
    const Outcome actual = RunStep(model, samples, 2);
    EXPECT_EQ(actual.trained.loss_sum, expected.trained.loss_sum);
    ExpectClose(actual.gradients, expected.gradients, 1e-6);
  }
}

TEST(FusionTest, TheNumberOfThreadsChangesNoBitOfStatistics) {
  const Model model = MakeModel(kBlocks);
  const Samples samples(model, 6, 1, 4);
  const TensorSet one = RunStep(model, samples, 1).statistics;
  EXPECT_EQ(RunStep(model, samples, 2).statistics[0], one[0]);
  EXPECT_EQ(RunStep(model, samples, 3).statistics[1], one[1]);
}

// A product's relative error is 2^-8; some twenty layers add theirs up.
TEST(FusionTest, BFloat16IsCloseToFloat32) {
  const Model model = MakeModel(kBlocks);
  const Samples samples(model, 6, 1, 4);
  const Outcome expected = RunStep(model, samples, 1);
  const Outcome actual = RunStep(model, samples, Half());
  EXPECT_NEAR(actual.trained.loss_sum, expected.trained.loss_sum, 0.2);
  EXPECT_NE(actual.trained.loss_sum, expected.trained.loss_sum);
  ExpectClose(actual.gradients, expected.gradients, 0.4);
  ExpectClose(actual.statistics, expected.statistics, 0.02);
  const Model pools = MakeModel(R"(layer { input_layer { shape: [8, 8, 3] } }
    layer { convolution { filters: 20 kernel: 3 padding: 1 } } layer { relu {} }
    layer { pool { kernel: 3 stride: 2 padding: 1 } } layer { convolution { filters: 4 kernel: 1 } }
    layer { pool { kernel: 2 } }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  ExpectClose(RunStep(pools, Samples(pools, 4, 1, 5), Half()).gradients,
              RunStep(pools, Samples(pools, 4, 1, 5), 1).gradients, 0.2);
}

}  // namespace
}  // namespace millrace::trainer
