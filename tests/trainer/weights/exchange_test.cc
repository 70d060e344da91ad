#include "trainer/weights/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/damaged_bytes.h"
#include "tests/messages.h"
#include "tests/sanitized.h"
#include "tests/temp_folder.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/weights/layout.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;

// The model of testdata/make_state_dict.py.
constexpr char kModel[] = R"(
    layer { input_layer { shape: [4, 3, 3] } }
    layer { name: "conv" convolution { filters: 2 kernel: [3, 1] } }
    layer { name: "bn" batch_norm {} }
    layer { relu {} }
    layer { reshape {} }
    layer { name: "fc" fully_connected { outputs: 2 } }
    layer { softmax_cross_entropy {} })";

std::string StateDictPath() {
  return std::string(std::getenv("MILLRACE_SOURCE_DIR")) +
         "/tests/trainer/weights/testdata/state_dict.safetensors";
}

struct Tensors {
  TensorSet weights;
  TensorSet buffers;
};

Tensors Fresh(const Model& model) {
  return {MakeInitialWeights(model, 3), MakeInitialBuffers(model)};
}

TensorFile StateDict() {
  absl::StatusOr<TensorFile> file = ReadForeignSafetensors(StateDictPath());
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : TensorFile();
}

TEST(Exchange, ForeignFilesAreReadInEachFloatType) {
  const TensorFile file = StateDict();
  EXPECT_THAT(file.tensors.at("conv.bias").data, ElementsAre(0, 0.25f));  // BF16
  EXPECT_THAT(file.tensors.at("bn.weight").data, ElementsAre(0, 0.25f));  // F64
  EXPECT_EQ(file.tensors.at("conv.weight").data[17], 4.25f);              // F16
  EXPECT_EQ(file.tensors.at("conv.weight").shape, Shape({2, 3, 3, 1}));
  EXPECT_THAT(file.skipped, ElementsAre(std::pair("bn.num_batches_tracked", "I64")));
}

TEST(Exchange, PyTorchsTensorsBecomeOurs) {
  const Model model = MakeModel(kModel);
  Tensors tensors = Fresh(model);
  const absl::Status taken =
      TakeWeights("file", StateDict(), model, {}, tensors.weights, tensors.buffers);
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(model.parameters[0].name, "conv/weights");
  EXPECT_EQ(tensors.weights[0][17], 4.25f);
  ASSERT_EQ(model.parameters[4].name, "fc/weights");
  // Output o, row h, column w, channel c.
  for (int i = 0, o = 0; o < 2; ++o) {
    for (int h = 0; h < 2; ++h) {
      for (int w = 0; w < 3; ++w) {
        for (int c = 0; c < 2; ++c, ++i) {
          const int torch = ((o * 2 + c) * 2 + h) * 3 + w;
          ASSERT_EQ(tensors.weights[4][i], static_cast<float>(torch) / 4) << i;
        }
      }
    }
  }
  EXPECT_THAT(tensors.buffers[1], ElementsAre(0, 0.25f));
}

TEST(Exchange, TheWayToPyTorchAndBackKeepsEveryBit) {
  const Model model = MakeModel(kModel);
  const Tensors ours = Fresh(model);
  const TempFolder folder;
  const std::string path = folder / "weights.safetensors";
  const TorchTensors torch = WithTorchNames(model, ours.weights, ours.buffers);
  ASSERT_TRUE(WriteSafetensors(path, {{"format", "pt"}}, torch.tensors).ok());
  auto file = ReadForeignSafetensors(path);
  ASSERT_TRUE(file.ok()) << file.status();
  for (const auto& [name, tensor] : StateDict().tensors) {
    ASSERT_TRUE(file->tensors.contains(name)) << name;
    EXPECT_EQ(file->tensors.at(name).shape, tensor.shape) << name;
  }
  Tensors back{MakeZeros(model), MakeInitialBuffers(model)};
  const absl::Status taken =
      TakeWeights(path, *std::move(file), model, {}, back.weights, back.buffers);
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(back.weights, ours.weights);
  EXPECT_EQ(back.buffers, ours.buffers);
  EXPECT_NE(ours.weights[4], torch.storage[4]) << "the layouts are the same: nothing is tested";
}

TEST(Exchange, SlotsOfParametersThatTheModelLacksAreNotListed) {
  const Model model = MakeModel(kModel);
  Tensors tensors = Fresh(model);
  TensorFile file = StateDict();
  for (const char* const name : {"other/weights", "adam_m/other/weights", "adam_v/other/weights"}) {
    file.tensors[name] = {Shape{1}, {0}};
  }
  const absl::Status taken =
      TakeWeights("file", std::move(file), model, {}, tensors.weights, tensors.buffers);
  EXPECT_THAT(std::string(taken.message()),
              ::testing::EndsWith("no layer of the model has: other/weights"));
}

TEST(Exchange, OurOwnNamesNeedNoOtherLayout) {
  const Model model = MakeModel(kModel);
  const Tensors ours = Fresh(model);
  TensorFile file;
  for (const TensorRef& tensor : WithOurNames(model, ours.weights, ours.buffers)) {
    file.tensors[tensor.name] = {tensor.shape, {tensor.data.begin(), tensor.data.end()}};
  }
  for (const Parameter& parameter : model.parameters) {
    file.tensors["momentum/" + parameter.name] = file.tensors[parameter.name];
  }
  Tensors back{MakeZeros(model), MakeInitialBuffers(model)};
  const absl::Status taken =
      TakeWeights("file", std::move(file), model, {}, back.weights, back.buffers);
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(back.weights, ours.weights);
}

TEST(Exchange, ExceptedTensorsKeepTheirValues) {
  const Model model = MakeModel(kModel);
  for (const char* pattern : {"fc.*", "fc/*", "f[a-c]?weight*"}) {
    Tensors tensors = Fresh(model);
    const auto before = tensors.weights[4];
    TensorFile file = StateDict();
    if (pattern[1] == 'c') file.tensors["fc.weight"].shape = {3, 8};
    ASSERT_TRUE(
        TakeWeights("file", std::move(file), model, {pattern}, tensors.weights, tensors.buffers)
            .ok())
        << pattern;
    EXPECT_EQ(tensors.weights[4], before) << pattern;
    EXPECT_EQ(tensors.weights[0][17], 4.25f) << pattern;
  }
}

TEST(Exchange, EveryTensorThatDoesNotFitIsNamed) {
  const Model model = MakeModel(kModel);
  Tensors tensors = Fresh(model);
  TensorFile file = StateDict();
  file.tensors.erase("conv.bias");
  file.tensors["bn.running_var"].shape = {3};
  for (int i = 0; i < 12; ++i) file.tensors["head." + std::to_string(i)] = {};
  EXPECT_MESSAGE(
      TakeWeights("a.safetensors", std::move(file), model, {}, tensors.weights, tensors.buffers),
      absl::StatusCode::kInvalidArgument, "misfits");
}

TEST(Exchange, DamagedForeignFilesAreDataLossOrOtherTensors) {
  std::stringstream bytes;
  bytes << std::ifstream(StateDictPath(), std::ios::binary).rdbuf();
  const TempFolder folder;
  const std::string path = folder / "damaged.safetensors";
  std::mt19937_64 random(12);
  int lost = 0;
  for (int round = 0; round < Rounds(500); ++round) {
    std::ofstream(path, std::ios::binary) << DamagedBytes(bytes.str(), random);
    const auto file = ReadForeignSafetensors(path);
    lost += file.ok() ? 0 : 1;
    ASSERT_TRUE(file.ok() || absl::IsDataLoss(file.status())) << file.status();
  }
  EXPECT_GT(lost, 0);
}

TEST(Exchange, AFileThatIsCutIsDataLoss) {
  std::stringstream bytes;
  bytes << std::ifstream(StateDictPath(), std::ios::binary).rdbuf();
  const TempFolder folder;
  const std::string path = folder / "cut.safetensors";
  for (size_t size = 0; size < bytes.str().size(); size += SampleStride()) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes.str().substr(0, size);
    ASSERT_TRUE(absl::IsDataLoss(ReadForeignSafetensors(path).status())) << size;
  }
  EXPECT_TRUE(absl::IsNotFound(ReadForeignSafetensors(folder / "none").status()));
}

}  // namespace
}  // namespace millrace::trainer
