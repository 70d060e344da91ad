#include "trainer/backend/cuda/products_of.h"

#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/models.h"

namespace millrace::trainer::cuda {
namespace {

using testing::ElementsAre;

constexpr ProductTypes kHalf = {.type = DType::kBF16};

Model Network(const std::string& name, ModelEnd end = ModelEnd::kLosses) {
  const absl::StatusOr<std::string> text = WriteModel(name, {});
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? MakeModel(*text, end) : Model();
}

// A block of ResNet-50 that halves the image, of few channels.
constexpr char kBlock[] = R"(
  layer { name: "image" input_layer { field: "image" shape: [16, 16, 8] } }
  layer { name: "conv1" convolution { filters: 4 kernel: 1 bias: false } }
  layer { name: "bn1" batch_norm {} }
  layer { name: "relu1" relu {} }
  layer { name: "conv2" convolution { filters: 4 kernel: 3 stride: 2 padding: 1 bias: false } }
  layer { name: "bn2" batch_norm {} }
  layer { name: "relu2" relu {} }
  layer { name: "conv3" convolution { filters: 16 kernel: 1 bias: false } }
  layer { name: "bn3" batch_norm {} }
  layer { name: "down" input: "image" convolution { filters: 16 kernel: 1 stride: 2 bias: false } }
  layer { name: "bn4" batch_norm {} }
  layer { name: "sum" input: "bn3" input: "bn4" add {} }
  layer { name: "out" relu {} }
)";

// "conv1 forward: ...", one line for each product, in the layers' order.
std::vector<std::string> Lines(const Model& model, int64_t rows, NetworkUse use,
                               ProductTypes types) {
  std::vector<std::string> lines;
  for (const LayerProducts& products : ProductsOf(model, rows, use, types)) {
    const std::string& name = model.layers[products.layer].name;
    lines.push_back(name + ": " + Describe(products.forward));
    if (products.data_gradient) {
      lines.push_back(name + " data: " + Describe(*products.data_gradient));
    }
    if (products.weight_gradient) {
      lines.push_back(name + " weights: " + Describe(*products.weight_gradient));
    }
  }
  return lines;
}

TEST(ProductsOfTest, LeNetsInTraining) {
  EXPECT_THAT(
      Lines(Network("lenet"), 64, NetworkUse::kTraining, kHalf),
      ElementsAre(
          "conv1: forward convolution, bfloat16 [64, 28, 28, 1] by [32, 5, 5, 1], stride 1, "
          "padding 2",
          "conv1 weights: weight gradient of a convolution, bfloat16 [64, 28, 28, 1] by [32, 5, "
          "5, 1], stride 1, padding 2",
          "conv2: forward convolution, bfloat16 [64, 14, 14, 32] by [64, 5, 5, 32], stride 1, "
          "padding 2",
          "conv2 data: data gradient of a convolution, bfloat16 [64, 14, 14, 32] by [64, 5, 5, "
          "32], stride 1, padding 2",
          "conv2 weights: weight gradient of a convolution, bfloat16 [64, 14, 14, 32] by [64, 5, "
          "5, 32], stride 1, padding 2",
          "fc1: forward convolution, bfloat16 [64, 1, 1, 3136] by [512, 1, 1, 3136], stride 1, "
          "padding 0",
          "fc1 data: data gradient of a convolution, bfloat16 [64, 1, 1, 3136] by [512, 1, 1, "
          "3136], stride 1, padding 0",
          "fc1 weights: weight gradient of a convolution, bfloat16 [64, 1, 1, 3136] by [512, 1, "
          "1, 3136], stride 1, padding 0",
          "fc2: forward convolution, bfloat16 [64, 1, 1, 512] by [10, 1, 1, 512], stride 1, "
          "padding 0, to float32",
          "fc2 data: data gradient of a convolution, bfloat16 [64, 1, 1, 512] by [10, 1, 1, 512], "
          "stride 1, padding 0",
          "fc2 weights: weight gradient of a convolution, bfloat16 [64, 1, 1, 512] by [10, 1, 1, "
          "512], stride 1, padding 0"));
}

TEST(ProductsOfTest, ThoseOfABlockOfAResNetInTraining) {
  EXPECT_THAT(
      Lines(MakeModel(kBlock, ModelEnd::kOutput), 2, NetworkUse::kTraining, kHalf),
      ElementsAre(
          "conv1: forward convolution, bfloat16 [2, 16, 16, 8] by [4, 1, 1, 8], stride 1, padding "
          "0",
          "conv1 weights: weight gradient of a convolution, bfloat16 [2, 16, 16, 8] by [4, 1, 1, "
          "8], stride 1, padding 0",
          "conv2: forward convolution, bfloat16 [2, 16, 16, 4] by [4, 3, 3, 4], stride 2, padding "
          "1",
          "conv2 data: data gradient of a convolution, bfloat16 [2, 16, 16, 4] by [4, 3, 3, 4], "
          "stride 2, padding 1",
          "conv2 weights: weight gradient of a convolution, bfloat16 [2, 16, 16, 4] by [4, 3, 3, "
          "4], stride 2, padding 1",
          "conv3: forward convolution, bfloat16 [2, 8, 8, 4] by [16, 1, 1, 4], stride 1, padding "
          "0",
          "conv3 data: data gradient of a convolution, bfloat16 [2, 8, 8, 4] by [16, 1, 1, 4], "
          "stride 1, padding 0",
          "conv3 weights: weight gradient of a convolution, bfloat16 [2, 8, 8, 4] by [16, 1, 1, "
          "4], stride 1, padding 0",
          "down: forward convolution, bfloat16 [2, 16, 16, 8] by [16, 1, 1, 8], stride 2, padding "
          "0",
          "down weights: weight gradient of a convolution, bfloat16 [2, 16, 16, 8] by [16, 1, 1, "
          "8], stride 2, padding 0"));
}

TEST(ProductsOfTest, AnEvaluationHasNoGradients) {
  EXPECT_THAT(Lines(Network("mlp"), 1, NetworkUse::kEvaluation, {DType::kF32, true}),
              ElementsAre("1: forward convolution, float32 [1, 1, 1, 784] by [512, 1, 1, 784], "
                          "stride 1, padding 0, TF32",
                          "3: forward convolution, float32 [1, 1, 1, 512] by [512, 1, 1, 512], "
                          "stride 1, padding 0, TF32",
                          "5: forward convolution, float32 [1, 1, 1, 512] by [10, 1, 1, 512], "
                          "stride 1, padding 0, TF32"));
}

// Its input is the small image, as y; the weights of the generator's are [channels, 5, 5, filters].
TEST(ProductsOfTest, ATransposedConvolutionIsADataGradient) {
  const Model model = Network("cosmogan_generator", ModelEnd::kOutput);
  const std::vector<LayerProducts> all = ProductsOf(model, 64, NetworkUse::kTraining, kHalf);
  ASSERT_EQ(all.size(), 5);
  EXPECT_EQ(model.layers[all[1].layer].name, "conv1");
  EXPECT_EQ(Describe(all[1].forward),
            "data gradient of a convolution, bfloat16 [64, 32, 32, 256] by [512, 5, 5, 256], "
            "stride 2, padding 1/2/1/2");
  EXPECT_EQ(Describe(*all[1].data_gradient),
            "forward convolution, bfloat16 [64, 32, 32, 256] by [512, 5, 5, 256], stride 2, "
            "padding 1/2/1/2");
  EXPECT_EQ(Describe(*all[1].weight_gradient),
            "weight gradient of a convolution, bfloat16 [64, 32, 32, 256] by [512, 5, 5, 256], "
            "stride 2, padding 1/2/1/2");
}

TEST(ProductsOfTest, AllAreRight) {
  for (const std::string& name : NetworkNames()) {
    SCOPED_TRACE(name);
    const bool has_loss = name != "cosmogan_generator";
    const Model model = Network(name, has_loss ? ModelEnd::kLosses : ModelEnd::kOutput);
    for (const LayerProducts& products :
         ProductsOf(model, 7, NetworkUse::kInputGradients, {DType::kF32, true})) {
      EXPECT_TRUE(CheckProductSpec(products.forward).ok());
      ASSERT_TRUE(products.data_gradient && products.weight_gradient);
      EXPECT_TRUE(CheckProductSpec(*products.data_gradient).ok());
      EXPECT_TRUE(CheckProductSpec(*products.weight_gradient).ok());
    }
  }
}

TEST(NeedsGradientTest, ValuesBehindTheFirstParameterDo) {
  const Model model = MakeModel(R"(
    layer { name: "image" input_layer { field: "image" shape: [4, 4, 1] } }
    layer { name: "flat" reshape {} }
    layer { name: "fc" fully_connected { outputs: 2 } }
    layer { name: "act" relu {} }
  )",
                                ModelEnd::kOutput);
  EXPECT_THAT(NeedsGradient(model, NetworkUse::kTraining), ElementsAre(false, false, true, true));
  EXPECT_THAT(NeedsGradient(model, NetworkUse::kInputGradients),
              ElementsAre(true, true, true, true));
  EXPECT_THAT(NeedsGradient(model, NetworkUse::kPrediction),
              ElementsAre(false, false, false, false));
}

TEST(DeviceChannelsTest, OnlyASixteenBitInputThatConvolutionsAloneReadIsPadded) {
  const std::string input = R"(
    layer { name: "image" input_layer { field: "image" shape: [8, 8, 3] } }
    layer { name: "conv" convolution { filters: 6 kernel: 3 } })";
  const Model padded = MakeModel(input, ModelEnd::kOutput);
  const int image = padded.layers[0].inputs[0];
  EXPECT_EQ(DeviceChannels(padded, image, DType::kBF16), 8);
  EXPECT_EQ(DeviceChannels(padded, image, DType::kF16), 8);
  EXPECT_EQ(DeviceChannels(padded, image, DType::kF32), 3);
  EXPECT_EQ(DeviceChannels(padded, padded.layers[0].output, DType::kBF16), 6);
  EXPECT_EQ(ProductsOfLayer(padded, 0, 1, NetworkUse::kTraining, kHalf).forward.channels, 8);

  const Model pooled = MakeModel(input + R"(
    layer { name: "pool" input: "image" pool { kernel: 3 stride: 1 } }
    layer { name: "both" input: "conv" input: "pool" concat {} })",
                                 ModelEnd::kOutput);
  EXPECT_EQ(DeviceChannels(pooled, pooled.layers[0].inputs[0], DType::kBF16), 3);
}

// --- Folded images ---

constexpr char kStem[] = R"(
  layer { name: "image" input_layer { field: "image" shape: [12, 8, 3] } }
  layer { name: "conv" convolution { filters: 6 kernel: 7 stride: 2 padding: 3 } })";

TEST(ReadsFoldedTest, TheFirstConvolutionOfResNet50Does) {
  const Model model = Network("resnet50");
  EXPECT_THAT(
      Lines(model, 256, NetworkUse::kTraining, kHalf),
      testing::IsSupersetOf(
          {"conv1: forward convolution, bfloat16 [256, 112, 112, 16] by [64, 4, 4, 16], stride 1, "
           "padding 2/1/2/1",
           "conv1 weights: weight gradient of a convolution, bfloat16 [256, 112, 112, 16] by [64, "
           "4, 4, 16], stride 1, padding 2/1/2/1"}));
  EXPECT_THAT(Lines(model, 256, NetworkUse::kEvaluation, {.type = DType::kF32}),
              testing::Contains("conv1: forward convolution, float32 [256, 224, 224, 3] by [64, 7, "
                                "7, 3], stride 2, padding 3"));
}

TEST(ReadsFoldedTest, NotWhereTheGradientOfTheImageIsNeeded) {
  Model model = MakeModel(kStem, ModelEnd::kOutput);
  for (const DType type : {DType::kBF16, DType::kF16}) {
    EXPECT_TRUE(ReadsFolded(model, 0, NetworkUse::kTraining, type));
    EXPECT_TRUE(ReadsFolded(model, 0, NetworkUse::kPrediction, type));
    EXPECT_FALSE(ReadsFolded(model, 0, NetworkUse::kInputGradients, type));
  }
  EXPECT_FALSE(ReadsFolded(model, 0, NetworkUse::kTraining, DType::kF32));
  model.inputs[0].dtype = DType::kU8;
  EXPECT_TRUE(ReadsFolded(model, 0, NetworkUse::kInputGradients, DType::kBF16));
  model.inputs[0].dtype = DType::kI32;
  EXPECT_FALSE(ReadsFolded(model, 0, NetworkUse::kTraining, DType::kBF16));
}

TEST(ReadsFoldedTest, OnlyConvolutionsOfStrideTwoOnEvenImagesOfFewChannels) {
  for (const auto& [shape, settings, expected] :
       std::vector<std::tuple<std::string, std::string, bool>>{
           {"[12, 8, 1]", "kernel: 1 stride: 2", true},
           {"[12, 8, 4]", "kernel: 2 stride: 2", true},
           {"[12, 8, 5]", "kernel: 2 stride: 2", false},
           {"[11, 8, 3]", "kernel: 2 stride: 2", false},
           {"[12, 7, 3]", "kernel: 2 stride: 2", false},
           {"[12, 8, 3]", "kernel: 3", false},
           {"[12, 8, 3]", "kernel: 3 stride: 4", false},
           {"[12, 8, 3]", "kernel: 3 stride: 2 dilation: 2", false},
           {"[12, 8, 4]", "kernel: 3 stride: 2 groups: 2", false}}) {
    const Model model = MakeModel("layer { input_layer { shape: " + shape +
                                      " } } layer { convolution { filters: 6 " + settings + " } }",
                                  ModelEnd::kOutput);
    EXPECT_EQ(ReadsFolded(model, 0, NetworkUse::kTraining, DType::kBF16), expected)
        << shape << " " << settings;
  }
  const Model behind = MakeModel(std::string(kStem) + R"(
    layer { name: "again" convolution { filters: 3 kernel: 2 } }
    layer { name: "third" convolution { filters: 3 kernel: 2 stride: 2 } })",
                                 ModelEnd::kOutput);
  EXPECT_TRUE(ReadsFolded(behind, 0, NetworkUse::kTraining, DType::kBF16));
  EXPECT_FALSE(ReadsFolded(behind, 2, NetworkUse::kTraining, DType::kBF16));
}

}  // namespace
}  // namespace millrace::trainer::cuda
