#include <gmock/gmock.h>

#include <algorithm>

#include "tests/messages.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/models.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;

Model Written(const std::string& network, const NetworkSizes& sizes = {}) {
  const auto text = WriteModel(network, sizes);
  EXPECT_TRUE(text.ok()) << text.status();
  return MakeModel(*text);
}

// The parameter of torchvision's state_dict that has the shape.
Shape ShapeOf(const Model& model, const std::string& name) {
  const auto found = std::ranges::find(model.parameters, name, &Parameter::name);
  return found == model.parameters.end() ? Shape() : found->shape;
}

TEST(ShippedNetworksTest, ResNetsHaveTheParametersOfTorchvisions) {
  EXPECT_THAT(NetworkNames(), ElementsAre("mlp", "lenet", "resnet18", "resnet50", "hep_cnn",
                                          "cosmogan_generator", "cosmogan_discriminator"));
  const Model small = Written("resnet18");
  EXPECT_EQ(small.num_parameters(), 11'689'512);
  EXPECT_EQ(small.parameters.size(), 62u);
  EXPECT_EQ(small.buffers.size(), 40u);
  const Model large = Written("resnet50");
  EXPECT_EQ(large.num_parameters(), 25'557'032);
  EXPECT_EQ(large.parameters.size(), 161u);
  EXPECT_EQ(large.buffers.size(), 106u);
  EXPECT_EQ(ShapeOf(large, "conv1/weights"), Shape({64, 3, 7, 7}));
  EXPECT_EQ(ShapeOf(large, "layer1.0.downsample.0/weights"), Shape({256, 64, 1, 1}));
  EXPECT_EQ(ShapeOf(large, "layer3.5.conv2/weights"), Shape({256, 256, 3, 3}));
  EXPECT_EQ(ShapeOf(large, "layer4.2.bn3/bias"), Shape({2048}));
  EXPECT_EQ(ShapeOf(large, "fc/weights"), Shape({1000, 2048}));
  EXPECT_EQ(large.losses[0].smoothing, 0.1);
}

// Version 1.5: the 3x3 convolution has the stride, not the first one.
TEST(ShippedNetworksTest, TheStrideOfABlockOfResNet50IsThatOfItsSecondConvolution) {
  const Model model = Written("resnet50");
  const auto layer = [&](const std::string& name) {
    return *std::ranges::find(model.layers, name, &Layer::name);
  };
  EXPECT_EQ(layer("layer2.0.conv1").window().stride[0], 1);
  EXPECT_EQ(layer("layer2.0.conv2").window().stride[0], 2);
  EXPECT_EQ(model.values[layer("layer4.2").output].shape, Shape({7, 7, 2048}));
  const TensorSet weights = MakeInitialWeights(model, 1);
  EXPECT_EQ(weights[layer("layer2.1.bn3").weights][0], 0) << "a block begins as its shortcut";
}

TEST(ShippedNetworksTest, ImagesOfUint8AreNormalizedByTheFirstLayer) {
  const ModelInput coloured = Written("resnet18", {.is_uint8 = true}).inputs[0];
  EXPECT_EQ(coloured.dtype, DType::kU8);
  EXPECT_EQ(coloured.mean, std::vector({123.675, 116.28, 103.53}));
  EXPECT_EQ(coloured.stddev, std::vector({58.395, 57.12, 57.375}));
  const ModelInput grey = Written("lenet", {.is_uint8 = true}).inputs[0];
  EXPECT_EQ(grey.mean, std::vector({127.5}));
  EXPECT_EQ(Written("lenet").inputs[0].dtype, DType::kF32);
}

// Layers have the numbers of Sequential(Flatten(), Linear(...), ReLU(), ...).
TEST(ShippedNetworksTest, AnMlpHasTheLayersOfPyTorchsSequential) {
  const Model model = Written("mlp");
  EXPECT_EQ(model.num_parameters(), (784 + 1) * 512 + (512 + 1) * 512 + (512 + 1) * 10);
  EXPECT_EQ(ShapeOf(model, "1/weights"), Shape({512, 784}));
  EXPECT_EQ(ShapeOf(model, "3/weights"), Shape({512, 512}));
  EXPECT_EQ(ShapeOf(model, "5/bias"), Shape({10}));
  const Model narrow = Written("mlp", {.classes = 3, .image = {1, 1, 13}, .hidden = {7}});
  EXPECT_EQ(ShapeOf(narrow, "1/weights"), Shape({7, 13}));
  EXPECT_EQ(ShapeOf(narrow, "3/weights"), Shape({3, 7}));
  EXPECT_MESSAGE(WriteModel("lenet", {.hidden = {7}}).status(), absl::StatusCode::kInvalidArgument,
                 "lenet");
  EXPECT_MESSAGE(WriteModel("mlp", {.width = 8}).status(), absl::StatusCode::kInvalidArgument,
                 "width");
}

// Sums of the papers' layers: of a convolution 25 or 9 weights for each pair of channels, and
// biases; of a norm two for each channel.
TEST(ShippedNetworksTest, NetworksOfPhysicsHaveThePapersParameters) {
  const Model hep = Written("hep_cnn");
  EXPECT_EQ(hep.num_parameters(), (27 * 128 + 128) + 4 * (9 * 128 * 128 + 128) + (128 * 2 + 2));
  EXPECT_EQ(hep.num_parameters(), 594'178);
  EXPECT_EQ(hep.parameters.size(), 12u);
  const auto generator = WriteModel("cosmogan_generator", {});
  ASSERT_TRUE(generator.ok()) << generator.status();
  const Model g = MakeModel(*generator, ModelEnd::kOutput);
  EXPECT_EQ(g.num_parameters(), 65 * 131'072 + 2 * (512 + 256 + 128 + 64) +
                                    25 * (512 * 256 + 256 * 128 + 128 * 64 + 64) +
                                    (256 + 128 + 64 + 1));
  EXPECT_EQ(g.num_parameters(), 12'824'449);
  EXPECT_EQ(g.losses[0].shape, Shape({256, 256, 1}));
  const Model d = Written("cosmogan_discriminator");
  EXPECT_EQ(d.num_parameters(), 25 * (64 + 64 * 128 + 128 * 256 + 256 * 512) +
                                    (64 + 128 + 256 + 512) + 2 * (128 + 256 + 512) + 131'073);
  EXPECT_EQ(d.num_parameters(), 4'436'225);
  EXPECT_EQ(d.input_shape(0), Shape({256, 256, 1}));
}

TEST(ShippedNetworksTest, SizesOfNetworksOfPhysicsMayBeChosen) {
  EXPECT_EQ(ShapeOf(Written("hep_cnn", {3, {32, 32, 1}, 8}), "conv2/weights"), Shape({8, 8, 3, 3}));
  const Model d = Written("cosmogan_discriminator", {0, {32, 48, 1}, 4});
  EXPECT_EQ(ShapeOf(d, "fc/weights"), Shape({1, 2 * 3 * 32}));
  EXPECT_MESSAGE(WriteModel("cosmogan_generator", {0, {40, 32, 1}, 0}).status(),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(WriteModel("cosmogan_generator", {2, {}, 0}).status(),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(WriteModel("lenet", {10, {}, 8}).status(), absl::StatusCode::kInvalidArgument);
}

TEST(ShippedNetworksTest, SizesMayBeChosen) {
  const Model lenet = Written("lenet", {62, {32, 32, 3}});
  EXPECT_EQ(lenet.input_shape(0), Shape({32, 32, 3}));
  EXPECT_EQ(lenet.losses[0].classes(), 62);
  EXPECT_EQ(ShapeOf(lenet, "fc1/weights"), Shape({512, 8 * 8 * 64}));
  EXPECT_MESSAGE(WriteModel("lenet", {10, {2, 2, 1}}).status(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(WriteModel("resnet", {}).status(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::trainer
