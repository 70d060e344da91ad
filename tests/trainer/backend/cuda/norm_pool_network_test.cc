// A batch norm that does the max pool behind its ReLU: where a network asks for it, and that no bit
// of a step is another than with layers that each work for themselves.

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/tested_device.h"
#include "trainer/backend/cuda/network.h"
#include "trainer/models.h"

namespace millrace::trainer::cuda {
namespace {

constexpr int64_t kStemRows = 3;

std::string StemOf(const std::string& pool, int filters = 8, const std::string& norm = "") {
  return absl::StrCat(R"(layer { name: "in" input_layer { shape: [11, 10, 3] } }
      layer { name: "conv" convolution { filters: )",
                      filters, R"( kernel: 3 padding: 1 bias: false } }
      layer { name: "norm" batch_norm { )",
                      norm, R"( } } layer { name: "relu" relu {} }
      layer { name: "pool" pool { )",
                      pool, R"( } }
      layer { name: "classes" fully_connected { outputs: 4 } }
      layer { softmax_cross_entropy {} })");
}

class NormPoolNetworkTest : public ::testing::Test {
 protected:
  void Make(const std::string& text) { Make(MakeModel(text)); }
  void Make(Model model) {
    model_ = std::move(model);
    auto made = TestedDevice::Make(model_, MakeInitialWeights(model_, 3),
                                   MakeInitialBuffers(model_), options_);
    ASSERT_TRUE(made.ok()) << made.status();
    tested_ = *std::move(made);
  }
  DeviceNetwork* Compile(int64_t rows, NetworkUse use) {
    const auto network = tested_->backend().Compile(rows, use);
    EXPECT_TRUE(network.ok()) << network.status();
    return network.ok() ? static_cast<DeviceNetwork*>(*network) : nullptr;
  }
  static std::vector<Operation> OperationsOf(const DeviceNetwork& network) {
    std::vector<Operation> all;
    for (const auto* const phase : {&network.program().forward, &network.program().backward}) {
      for (const Segment& segment : *phase) {
        all.insert(all.end(), segment.operations.begin(), segment.operations.end());
      }
    }
    return all;
  }
  // Names of a layer's operations.
  static std::vector<std::string> NamesOf(const DeviceNetwork& network, const std::string& layer) {
    std::vector<std::string> names;
    for (const Operation& operation : OperationsOf(network)) {
      if (operation.name.starts_with(layer + ":")) names.push_back(operation.name);
    }
    return names;
  }

  TensorSet Run(NetworkUse use);
  void ExpectTheBitsOfSeparateLayers(const std::string& text);

  BackendOptions options_ = 1;
  Model model_;
  std::unique_ptr<TestedBackend> tested_;
};

// What a step leaves behind: gradients or none, the loss, the output and statistics.
TensorSet NormPoolNetworkTest::Run(NetworkUse use) {
  DeviceNetwork& network = *Compile(kStemRows, use);
  const Samples samples(model_, kStemRows, 1, 5);
  EXPECT_TRUE(network.Forward(samples.All()).ok());
  TensorSet values;
  if (use == NetworkUse::kTraining) {
    EXPECT_TRUE(network.Backward(Ignore).ok());
    values = tested_->Gradients();
  }
  const auto result = network.Result();
  EXPECT_TRUE(result.ok()) << result.status();
  values.push_back({static_cast<float>(result->loss_sum)});
  const auto output = network.output(0);
  EXPECT_TRUE(output.ok()) << output.status();
  values.emplace_back(output->begin(), output->end());
  values.insert(values.end(), network.statistics().begin(), network.statistics().end());
  return values;
}

void NormPoolNetworkTest::ExpectTheBitsOfSeparateLayers(const std::string& text) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16}) {
    options_.precision = precision;
    for (const NetworkUse use : {NetworkUse::kTraining, NetworkUse::kEvaluation}) {
      options_.fuses = true;
      Make(text);
      const TensorSet fused = Run(use);
      options_.fuses = false;
      Make(text);
      EXPECT_EQ(fused, Run(use)) << text;
    }
  }
}

TEST_F(NormPoolNetworkTest, BitsAreThoseOfSeparateLayers) {
  for (const char* const pool :
       {"kernel: 3 stride: 2 padding: 1", "kernel: 2 stride: 2", "kernel: 3 stride: 1"}) {
    for (const int filters : {3, 8}) ExpectTheBitsOfSeparateLayers(StemOf(pool, filters));
  }
}

TEST_F(NormPoolNetworkTest, ASynchronizedNormDoesItsPoolToo) {
  options_.sum_over_ranks = [](uint64_t, std::span<double> values) {
    for (double& value : values) value *= 2;  // another rank with the same rows
    return absl::OkStatus();
  };
  ExpectTheBitsOfSeparateLayers(StemOf("kernel: 3 stride: 2 padding: 1", 8, "synchronized: true"));
}

TEST_F(NormPoolNetworkTest, OnlyAPoolThatAloneReadsTheReluIsDoneByTheNorm) {
  const auto is_done = [&](const std::string& text) {
    Make(text);
    return NamesOf(*Compile(kStemRows, NetworkUse::kTraining), "pool").empty();
  };
  const std::string stem = StemOf("kernel: 3 stride: 2");
  EXPECT_TRUE(is_done(stem));
  EXPECT_FALSE(is_done(StemOf("kind: AVERAGE kernel: 3 stride: 2")));
  constexpr char kStem[] = R"(layer { name: "in" input_layer { shape: [8, 8, 4] } }
      layer { name: "conv" convolution { filters: 4 kernel: 3 padding: 1 bias: false } }
      layer { name: "norm" batch_norm {} } )";
  constexpr char kEnd[] = R"(layer { fully_connected { outputs: 4 } }
      layer { softmax_cross_entropy {} })";
  EXPECT_FALSE(is_done(absl::StrCat(kStem, R"(layer { name: "pool" pool { kernel: 2 } })", kEnd)))
      << "no ReLU";
  EXPECT_FALSE(is_done(absl::StrCat(kStem, R"(layer { name: "relu" relu {} }
      layer { name: "pool" pool { kernel: 3 stride: 1 padding: 1 } }
      layer { input: ["pool", "relu"] add {} })",
                                    kEnd)))
      << "two readers";
  EXPECT_FALSE(is_done(absl::StrCat(kStem, R"(layer { input: ["norm", "in"] add {} }
      layer { name: "relu" relu {} } layer { name: "pool" pool { kernel: 2 } })",
                                    kEnd)))
      << "an addition";
  options_.fuses = false;
  EXPECT_FALSE(is_done(stem));
}

// Its largest value, and the gradient of that, are not in memory.
TEST_F(NormPoolNetworkTest, AResNet50sStemIsOneWithItsPool) {
  const auto text = WriteModel("resnet50", {});
  ASSERT_TRUE(text.ok()) << text.status();
  Make(*text);
  const DeviceNetwork& network = *Compile(1, NetworkUse::kTraining);
  EXPECT_THAT(NamesOf(network, "bn1"),
              ::testing::ElementsAre("bn1: measure", "bn1: forward", "bn1: gradients",
                                     "bn1: gradient of input"));
  EXPECT_THAT(NamesOf(network, "relu"), ::testing::IsEmpty());
  EXPECT_THAT(NamesOf(network, "maxpool"), ::testing::IsEmpty());
  for (const Operation& operation : OperationsOf(network)) {
    std::vector<std::string> values;
    for (const MemoryRange& range : operation.reads) values.push_back(range.value);
    for (const MemoryRange& range : operation.writes) values.push_back(range.value);
    EXPECT_THAT(values, ::testing::Not(::testing::Contains("bn1"))) << operation.name;
    EXPECT_THAT(values, ::testing::Not(::testing::Contains("gradient of bn1"))) << operation.name;
    if (operation.name == "bn1: forward") {
      EXPECT_THAT(values, ::testing::IsSupersetOf({"conv1", "maxpool", "places of maxpool"}));
    }
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
