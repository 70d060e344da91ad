// Training has the same bits with and without activations that are computed again.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/trainer/model/test_nets.h"
#include "trainer/backend/onednn/value_memory.h"

namespace millrace::trainer {
namespace {

// Two inputs, two losses, batch norms with a ReLU and a sum, dropout, and layers of all kinds.
constexpr char kLayers[] = R"(
    layer { name: "image" input_layer { field: "image" shape: [12, 12, 4] } }
    layer { name: "more" input_layer { field: "more" shape: [12, 12, 4] } }
    layer { name: "in" input: "image" batch_norm {} }
    layer { name: "both" input: ["in", "more"] add {} }
    layer { name: "stem" convolution { filters: 16 kernel: 3 padding: 1 } } layer { relu {} }
    layer { pool { kernel: 2 } }
    layer { name: "drop1" dropout { rate: 0.2 } }
    layer { name: "c1" convolution { filters: 16 kernel: 3 padding: 1 bias: false } }
    layer { batch_norm {} } layer { relu {} }
    layer { name: "c2" convolution { filters: 16 kernel: 1 bias: false } }
    layer { name: "n2" batch_norm {} }
    layer { name: "a2" input: ["n2", "drop1"] add {} } layer { name: "r2" relu {} }
    layer { name: "side" input: "r2" fully_connected { outputs: 3 } }
    layer { name: "c3" input: "r2" convolution { filters: 16 kernel: 3 padding: 1 bias: false } }
    layer { batch_norm {} } layer { relu {} }
    layer { name: "c4" convolution { filters: 16 kernel: 1 } } layer { name: "s4" sigmoid {} }
    layer { name: "m4" input: ["s4", "r2"] multiply {} }
    layer { name: "c5" input: "m4" convolution { filters: 16 kernel: 3 padding: 1 bias: false } }
    layer { name: "n5" batch_norm {} }
    layer { name: "a5" input: ["n5", "m4"] add {} } layer { name: "r5" relu {} }
    layer { name: "c6" convolution { filters: 8 kernel: 3 padding: 1 } }
    layer { name: "l6" silu {} }
    layer { name: "all" input: ["l6", "r5"] concat {} }
    layer { name: "c7" transposed_convolution { filters: 8 kernel: 2 stride: 2 } }
    layer { name: "l7" leaky_relu { slope: 0.1 } }
    layer { name: "p7" pool { kernel: 2 kind: AVERAGE } } layer { dropout { rate: 0.3 } }
    layer { name: "c8" convolution { filters: 8 kernel: 3 padding: 1 bias: false } }
    layer { batch_norm {} } layer { name: "r8" relu {} }
    layer { name: "c9" convolution { filters: 8 kernel: 3 padding: 1 } } layer { tanh {} }
    layer { global_average_pool {} } layer { reshape { shape: [8] } }
    layer { name: "last" fully_connected { outputs: 3 } }
    layer { name: "loss1" softmax_cross_entropy {} }
    layer { name: "loss2" input: "side" softmax_cross_entropy { weight: 0.5 } }
    layer { name: "loss3" input: "last" softmax_cross_entropy { label_smoothing: 0.1 } })";
constexpr int64_t kBatchRows = 6;

struct Variant {
  bool recomputes = false;
  Precision precision = Precision::kFloat32;
  bool fuses = true;
  int threads = 2;

  BackendOptions Options() const {
    BackendOptions options(threads);
    options.recomputes_activations = recomputes;
    options.precision = precision;
    options.fuses = fuses;
    return options;
  }
};

// A model with its tensors, and a batch of drawn values whose last row is padding.
class Trained {
 public:
  Trained(const Variant& variant, NetworkUse use)
      : samples_(model_, kBatchRows, 1, 7), more_(model_, kBatchRows, 0, 8) {
    auto backend =
        MakeOneDnnBackend(model_, weights_, buffers_, Spans(gradients_), variant.Options());
    EXPECT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    const auto network = backend_->Compile(kBatchRows, use);
    EXPECT_TRUE(network.ok()) << network.status();
    network_ = *network;
  }

  void Forward(uint64_t step) {
    StepInput input = samples_.All();
    input.inputs.push_back(more_.All().inputs[0]);
    input.step = step;
    const auto result = ForwardResult(*network_, input);
    ASSERT_TRUE(result.ok()) << result.status();
    losses_.push_back(result->loss_sum);
  }
  // Moves the weights against their gradients.
  void Backward() {
    ASSERT_TRUE(network_->Backward(Ignore).ok());
    for (size_t i = 0; i < weights_.size(); ++i) {
      std::ranges::transform(weights_[i], gradients_[i], weights_[i].begin(),
                             [](float weight, float gradient) { return weight - gradient; });
    }
  }

  const Model model_ = MakeModel(kLayers);
  TensorSet weights_ = MakeInitialWeights(model_, 3);
  const TensorSet buffers_ = MakeInitialBuffers(model_);
  TensorSet gradients_ = MakeZeros(model_);
  std::vector<double> losses_;
  Samples samples_;
  Samples more_;
  std::unique_ptr<Backend> backend_;
  Network* network_ = nullptr;
};

std::vector<float> ValuesOf(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// NaN is equal to itself.
std::vector<uint32_t> BitsOf(const TensorSet& tensors) {
  std::vector<uint32_t> bits;
  for (const auto& tensor : tensors) {
    for (const float value : tensor) bits.push_back(std::bit_cast<uint32_t>(value));
  }
  return bits;
}

class RecomputeTest : public ::testing::Test {
 protected:
  // Some steps with `variant`, and the same ones with activations that are computed again.
  static void ExpectTheSameBits(Variant variant) {
    Trained kept(variant, NetworkUse::kTraining);
    variant.recomputes = true;
    Trained made_again(variant, NetworkUse::kTraining);
    for (uint64_t step = 0; step < 3; ++step) {
      for (Trained* const trained : {&kept, &made_again}) {
        trained->Forward(step);
        trained->Backward();
      }
      EXPECT_EQ(made_again.losses_, kept.losses_);
      EXPECT_EQ(made_again.gradients_, kept.gradients_);
      EXPECT_EQ(made_again.network_->statistics(), kept.network_->statistics());
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(ValuesOf(*made_again.network_->output(i)), ValuesOf(*kept.network_->output(i)));
      }
    }
    EXPECT_NE(kept.weights_, MakeInitialWeights(kept.model_, 3));
    EXPECT_EQ(made_again.weights_, kept.weights_);
    EXPECT_TRUE(std::isfinite(kept.losses_.back()));
  }
};

TEST_F(RecomputeTest, WeightsHaveTheSameBits) {
  ExpectTheSameBits({});
  ExpectTheSameBits({.threads = 1});
}

TEST_F(RecomputeTest, WeightsHaveTheSameBitsIfEveryLayerWorksForItself) {
  ExpectTheSameBits({.fuses = false});
}

TEST_F(RecomputeTest, WeightsHaveTheSameBitsInBFloat16) {
  Variant half = {.precision = Precision::kBFloat16};
  const Model model = MakeModel(kLayers);
  TensorSet weights = MakeInitialWeights(model, 3);
  const TensorSet buffers = MakeInitialBuffers(model);
  if (!MakeOneDnnBackend(model, weights, buffers, {}, half.Options()).ok()) {
    GTEST_SKIP() << "the processor has no instructions for bfloat16";
  }
  ExpectTheSameBits(half);
}

// Layers of the first two segments run again, and less memory is needed. An evaluation has one
// segment.
TEST_F(RecomputeTest, SeveralSegmentsAreComputedAgain) {
  const Model model = MakeModel(kLayers);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  for (const NetworkUse use : {NetworkUse::kTraining, NetworkUse::kInputGradients}) {
    const ValueMemory kept(model, kBatchRows, use, Variant{}.Options(), engine);
    const ValueMemory again(model, kBatchRows, use, Variant{.recomputes = true}.Options(), engine);
    EXPECT_LT(again.plan().bytes, 0.8 * static_cast<double>(kept.plan().bytes));
    EXPECT_EQ(kept.segments().size(), 1u);
    ASSERT_GE(again.segments().size(), 3u);
    EXPECT_FALSE(again.segments()[0].again.empty());
    EXPECT_FALSE(again.segments()[1].again.empty());
  }
  const ValueMemory evaluation(model, kBatchRows, NetworkUse::kEvaluation,
                               Variant{.recomputes = true}.Options(), engine);
  EXPECT_EQ(evaluation.segments().size(), 1u);
}

// As a generator and its discriminator do.
TEST_F(RecomputeTest, BackwardMayRunAgainWithOtherGradients) {
  Trained kept({}, NetworkUse::kInputGradients);
  Trained made_again({.recomputes = true}, NetworkUse::kInputGradients);
  std::array<std::vector<std::vector<float>>, 2> found;
  for (Trained* const trained : {&kept, &made_again}) {
    auto& of = found[trained == &kept ? 0 : 1];
    Network& network = *trained->network_;
    trained->Forward(0);
    const std::vector<float> first =
        LossGradient(trained->model_, network, 0, trained->samples_.All());
    for (const float factor : {1.0f, -2.0f, 1.0f}) {
      std::vector<float> given = first;
      for (float& value : given) value *= factor;
      ASSERT_TRUE(network.SetOutputGradient(0, given).ok());
      ASSERT_TRUE(network.Backward({}).ok());
      for (const size_t i : {0, 1}) of.push_back(ValuesOf(*network.input_gradient(i)));
    }
    trained->Backward();
  }
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[0][4], found[0][0]);
  EXPECT_NE(found[0][2], found[0][0]);
  EXPECT_EQ(made_again.gradients_, kept.gradients_);
}

TEST_F(RecomputeTest, TheFirstLayerThatIsNotFiniteIsFoundBeforeAndAfterBackward) {
  Trained trained({.recomputes = true}, NetworkUse::kTraining);
  Trained other({.recomputes = true}, NetworkUse::kTraining);
  trained.Forward(0);
  other.Forward(0);
  EXPECT_EQ(trained.network_->FirstNonFinite(), "");
  ASSERT_TRUE(trained.network_->Backward(Ignore).ok());
  ASSERT_TRUE(other.network_->Backward(Ignore).ok());
  EXPECT_EQ(trained.gradients_, other.gradients_);
  EXPECT_EQ(trained.network_->FirstNonFinite(), "");
  const auto layer = std::ranges::find(trained.model_.layers, "c4", &Layer::name);
  ASSERT_NE(layer, trained.model_.layers.end());
  trained.weights_[layer->bias][0] = std::numeric_limits<float>::infinity();
  other.weights_ = trained.weights_;
  trained.Forward(1);
  other.Forward(1);
  EXPECT_EQ(trained.network_->FirstNonFinite(), "c4");
  ASSERT_TRUE(trained.network_->Backward(Ignore).ok());
  ASSERT_TRUE(other.network_->Backward(Ignore).ok());
  EXPECT_EQ(BitsOf(trained.gradients_), BitsOf(other.gradients_));
  EXPECT_EQ(trained.network_->FirstNonFinite(), "c4");
}

}  // namespace
}  // namespace millrace::trainer
