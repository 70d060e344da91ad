#include "trainer/model/model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "tests/messages.h"
#include "tests/temp_folder.h"
#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

absl::Status ErrorOf(const std::string& text) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return BuildModel(spec, [](int layer) { return "at " + std::to_string(layer); }).status();
}

const char kInput[] = "layer { input_layer { shape: [8, 8, 3] } }";
const char kLoss[] = "layer { fully_connected { outputs: 4 } } layer { softmax_cross_entropy {} }";

TEST(ModelTest, AModelWithoutALossEndsInItsLastValue) {
  const auto build = [](const std::string& text) {
    ModelSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
    return BuildModel(
        spec, [](int layer) { return "at " + std::to_string(layer); }, ModelEnd::kOutput);
  };
  const auto model = build(std::string(kInput) + R"(layer { convolution { filters: 2 kernel: 3 } }
      layer { name: "made" tanh {} })");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->losses.size(), 1u);
  EXPECT_EQ(model->losses[0].kind, LossKind::kGivenGradient);
  EXPECT_EQ(model->losses[0].shape, Shape({6, 6, 2}));
  EXPECT_EQ(model->values[model->losses[0].input].name, "made");
  EXPECT_MESSAGE(build(std::string(kInput) + kLoss).status(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(build(std::string(kInput) + R"(layer { name: "a" relu {} }
      layer { name: "b" input: "input1" relu {} })")
                     .status(),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(build(kInput).status(), absl::StatusCode::kInvalidArgument);
}

TEST(ModelTest, ShapesAndParametersFollowTheLayers) {
  const Model model = MakeModel(std::string(kInput) +
                                R"(layer { name: "stem" convolution { filters: 6 kernel: 3 } }
    layer { pool { kernel: 2 } } layer { relu {} })" +
                                kLoss);
  ASSERT_EQ(model.layers.size(), 4u);
  EXPECT_EQ(model.values[model.layers[0].output].shape, Shape({6, 6, 6}));
  EXPECT_EQ(model.values[model.layers[1].output].shape, Shape({3, 3, 6}));
  ASSERT_EQ(model.parameters.size(), 4u);
  EXPECT_EQ(model.parameters[0].name, "stem/weights");
  EXPECT_EQ(model.parameters[0].shape, Shape({6, 3, 3, 3}));
  EXPECT_EQ(model.parameters[1].name, "stem/bias");
  EXPECT_EQ(model.parameters[2].name, "fc1/weights");
  EXPECT_EQ(model.parameters[2].shape, Shape({4, 54}));
  EXPECT_EQ(model.num_parameters(), 6 * 27 + 6 + 4 * 54 + 4);
  ASSERT_EQ(model.losses.size(), 1u);
  EXPECT_EQ(model.losses[0].classes(), 4);
  EXPECT_EQ(model.losses[0].target, "label");
  ASSERT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.inputs[0].field, "image");
}

TEST(ModelTest, ErrorsNameThePlaceTheLayerAndTheShapes) {
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) +
                         R"(layer { name: "big" convolution { filters: 1 kernel: 9 } })" + kLoss),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + "layer { fully_connected { outputs: 4 } }" +
                         "layer { pool { kernel: 2 } }" + kLoss),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(
      ErrorOf(std::string(kInput) + "layer { relu {} } layer { softmax_cross_entropy {} }"),
      absl::StatusCode::kInvalidArgument);
}

TEST(ModelTest, BadWiringIsRefused) {
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + R"(layer { input: "nowhere" relu {} })" + kLoss),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + R"(layer { name: "a" relu {} }
                layer { input: "input1" relu {} })" +
                         kLoss),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + R"(layer { name: "a" relu {} }
                layer { name: "a" relu {} })" +
                         kLoss),
                 absl::StatusCode::kInvalidArgument);
  MakeModel(std::string(kInput) + R"(layer { name: "a" input: "input1" relu {} }
    layer { input: "a" relu {} })" +
            kLoss);
}

TEST(ModelTest, ACircleCannotBeWritten) {
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + R"(layer { name: "a" input: "b" relu {} }
                layer { name: "b" input: "a" relu {} })" +
                         kLoss),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + R"(layer { name: "a" input: "a" relu {} })" + kLoss),
                 absl::StatusCode::kInvalidArgument);
}

TEST(ModelTest, ALayerMayBeReadByManyAndAModelMayHaveSeveralLosses) {
  const Model model = MakeModel(std::string(kInput) +
                                R"(layer { name: "stem" fully_connected { outputs: 4 } }
    layer { softmax_cross_entropy { label: "fine" } }
    layer { name: "a" input: "stem" relu {} }
    layer { name: "b" input: "stem" relu {} }
    layer { input: "a" softmax_cross_entropy {} } layer { input: "b" softmax_cross_entropy {} })");
  ASSERT_EQ(model.losses.size(), 3u);
  EXPECT_EQ(model.losses[0].target, "fine");
  EXPECT_EQ(model.layers[1].inputs, model.layers[2].inputs);
  EXPECT_EQ(model.ToText(),
            "input [8, 8, 3]\n"
            "layer 'stem' fully connected to [4], kernel 0, stride 1, padding 0\n"
            "layer 'a' relu to [4], kernel 0, stride 1, padding 0\n"
            "layer 'b' relu to [4], kernel 0, stride 1, padding 0, reads 'stem'\n"
            "loss 'loss1' softmax cross-entropy, weight 1, reads 'stem'\n"
            "loss 'loss2' softmax cross-entropy, weight 1, reads 'a'\n"
            "loss 'loss3' softmax cross-entropy, weight 1, reads 'b'\n");
}

TEST(ModelTest, WhatAModelNeedsIsNamed) {
  EXPECT_MESSAGE(ErrorOf(kLoss), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + kInput + kLoss), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + "layer { relu {} }"),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + "layer { softmax_cross_entropy {} }" + kLoss),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(kInput), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + "layer {}" + kLoss),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) + kLoss + "layer { relu {} }"),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(ErrorOf("layer { input_layer { shape: 5 } } layer { softmax_cross_entropy {} }"),
                 absl::StatusCode::kInvalidArgument);
}

TEST(ModelTest, AbsurdSizesAreRefused) {
  for (const char* layer :
       {"convolution { filters: 0 kernel: 3 }", "convolution { filters: 1 }",
        "convolution { filters: 4294967295 kernel: 3 }", "pool { kernel: 2 padding: 2 }", "pool {}",
        "fully_connected {}", "fully_connected { outputs: 4294967295 }",
        "convolution { filters: 1000000 kernel: 1 }"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        ErrorOf(std::string("layer { input_layer { shape: [900, 900, 3] } } layer { ") + layer +
                " }" + kLoss)));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      ErrorOf(std::string("layer { input_layer { shape: [8, 0, 3] } }") + kLoss)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      ErrorOf(std::string("layer { input_layer { shape: [8, 8] } }") + kLoss)));
  EXPECT_TRUE(absl::IsInvalidArgument(ErrorOf(
      std::string("layer { input_layer { shape: [1000000, 1000000, 1000000] } }") + kLoss)));
}

// Checkpoints hold this text's fingerprint.
TEST(ModelTest, TheTextOfAChainStaysAsItWas) {
  const Model model =
      MakeModel(std::string(kInput) +
                R"(layer { name: "stem" convolution { filters: 6 kernel: 3 padding: 1 } }
    layer { pool { kernel: 2 } } layer { relu {} })" +
                kLoss);
  EXPECT_EQ(model.ToText(),
            "input [8, 8, 3]\n"
            "layer 'stem' convolution to [8, 8, 6], kernel 3, stride 1, padding 1\n"
            "layer 'pool1' max pool to [4, 4, 6], kernel 2, stride 2, padding 0\n"
            "layer 'relu1' relu to [4, 4, 6], kernel 0, stride 1, padding 0\n"
            "layer 'fc1' fully connected to [4], kernel 0, stride 1, padding 0\n");
}

TEST(ModelTest, WindowsMayBeAnyRectangle) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [9, 8, 4] } }
    layer { name: "a" convolution { filters: 6 kernel: [3, 1] stride: [2, 1] padding: [1, 0]
                                    groups: 2 bias: false } }
    layer { name: "b" convolution { filters: 2 kernel: 3 stride: 2 dilation: 2 same: true } }
    layer { name: "c" pool { kind: AVERAGE kernel: 2 padding: [0, 1, 1, 0] } }
    layer { name: "d" global_average_pool {} } layer { name: "e" leaky_relu { slope: 0.2 } }
    layer { fully_connected { outputs: 2 bias: false } } layer { softmax_cross_entropy {} })");
  ASSERT_EQ(model.parameters.size(), 4u);
  EXPECT_EQ(model.parameters[0].shape, Shape({6, 2, 3, 1}));
  EXPECT_EQ(model.parameters[0].fan_in, 6);
  EXPECT_EQ(model.layers[0].bias, -1);
  EXPECT_EQ(model.ToText(),
            "input [9, 8, 4]\n"
            "layer 'a' convolution to [5, 8, 6], kernel 3x1, stride 2x1, padding 1/1/0/0, "
            "groups 2, no bias\n"
            "layer 'b' convolution to [3, 4, 2], kernel 3, stride 2, padding 2/2/1/2, "
            "dilation 2\n"
            "layer 'c' average pool to [2, 2, 2], kernel 2, stride 2, padding 0/1/1/0\n"
            "layer 'd' global average pool to [2]\n"
            "layer 'e' leaky relu to [2], slope 0.2\n"
            "layer 'fc1' fully connected to [2], kernel 0, stride 1, padding 0, no bias\n");
}

TEST(ModelTest, LayersThatDoNotFitTheirInputsNameTheShapes) {
  const auto error = [](const std::string& layers) { return ErrorOf(kInput + layers + kLoss); };
  const auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_MESSAGE(error("layer { convolution { filters: 4 kernel: 3 groups: 2 } }"), kBad);
  EXPECT_MESSAGE(error("layer { convolution { filters: 4 kernel: [1, 2, 3] } }"), kBad);
  EXPECT_MESSAGE(error("layer { convolution { filters: 4 kernel: 3 padding: [1, 2, 3] } }"), kBad);
  EXPECT_MESSAGE(error("layer { convolution { filters: 4 kernel: 3 padding: 1 same: true } }"),
                 kBad);
  EXPECT_MESSAGE(error("layer { convolution { filters: 4 kernel: 5 dilation: 2 } }"), kBad);
  EXPECT_MESSAGE(error("layer { add {} }"), kBad);
  EXPECT_MESSAGE(
      error("layer { pool { kernel: 2 } } layer { input: [\"input1\", \"pool1\"] add {} }"), kBad);
  EXPECT_MESSAGE(
      error("layer { pool { kernel: 2 } } layer { input: [\"input1\", \"pool1\"] concat {} }"),
      kBad);
  EXPECT_MESSAGE(error("layer { reshape { shape: [7, 8, 3] } }"), kBad);
  EXPECT_MESSAGE(error("layer { reshape { shape: [8, 24] } }"), kBad);
  EXPECT_MESSAGE(error("layer { reshape {} } layer { global_average_pool {} }"), kBad);
  EXPECT_MESSAGE(error("layer { leaky_relu { slope: nan } }"), kBad);
}

TEST(ModelTest, LossesOfEveryKindSayWhatTheyWant) {
  const auto model = [](const std::string& layers) {
    return MakeModel(
        "layer { input_layer { shape: [2, 2, 3] } } "
        "layer { convolution { filters: 3 kernel: 1 } } " +
        layers);
  };
  const Model error = model("layer { mean_squared_error { target: \"y\" weight: 0.5 } }");
  EXPECT_EQ(error.losses[0].WantedTarget(), "float32 [2, 2, 3]");
  EXPECT_TRUE(error.losses[0].Accepts(DType::kF32, {2, 2, 3}));
  EXPECT_FALSE(error.losses[0].Accepts(DType::kI64, {}));
  EXPECT_NE(error.ToText().find("loss 'loss1' mean squared error, weight 0.5"), std::string::npos);
  const Model one = model(
      "layer { fully_connected { outputs: 1 } } "
      "layer { sigmoid_cross_entropy {} }");
  EXPECT_EQ(one.losses[0].WantedTarget(), "int64 or int32 [], or float32 [1]");
  const Model soft = model(
      "layer { fully_connected { outputs: 4 } } "
      "layer { softmax_cross_entropy { label_smoothing: 0.1 } }");
  EXPECT_TRUE(soft.losses[0].Accepts(DType::kF32, {4}));
  EXPECT_FALSE(soft.losses[0].Accepts(DType::kF32, {}));
  EXPECT_NE(soft.ToText().find("weight 1, smoothing 0.1"), std::string::npos);
  const std::string fc = "layer { fully_connected { outputs: 4 } } ";
  const auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_MESSAGE(ErrorOf(kInput + fc + "layer { softmax_cross_entropy { label_smoothing: 1 } }"),
                 kBad);
  EXPECT_MESSAGE(ErrorOf(kInput + fc + "layer { mean_absolute_error { weight: -1 } }"), kBad);
  Schema schema({{"image", DType::kF32, {2, 2, 3}}, {"y", DType::kF32, {2, 3}}});
  EXPECT_MESSAGE(CheckFields(error, schema), kBad);
}

TEST(ModelTest, FingerprintMovesWithWhatTheTensorsDependOn) {
  const std::string relu = "layer { relu {} }";
  const Model model = MakeModel(kInput + relu + kLoss);
  EXPECT_EQ(model.Fingerprint(), MakeModel("name: \"x\"" + (kInput + relu + kLoss)).Fingerprint());
  EXPECT_NE(model.Fingerprint(), MakeModel(std::string(kInput) + kLoss).Fingerprint());
}

TEST(ModelTest, TheTextOfABatchNormSaysMoreOnlyIfItIsSynchronized) {
  const auto text = [](const std::string& options) {
    return MakeModel(kInput + ("layer { batch_norm { " + options + " } }") + kLoss).ToText();
  };
  EXPECT_THAT(text(""), ::testing::HasSubstr(", momentum 0.1, epsilon 1e-05\n"));
  EXPECT_EQ(text("synchronized: false"), text(""));
  EXPECT_THAT(text("synchronized: true"),
              ::testing::HasSubstr(", momentum 0.1, epsilon 1e-05, synchronized\n"));
}

TEST(ModelTest, WeightsAreHeNormalAndKeyedByNameAndSeed) {
  const std::string fc = "layer { name: \"wide\" fully_connected { outputs: 500 } }";
  const Model model = MakeModel(kInput + fc + kLoss);
  const TensorSet weights = MakeInitialWeights(model, 3);
  double sum = 0;
  double squares = 0;
  for (float value : weights[0]) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(weights[0].size());  // 96,000
  EXPECT_NEAR(sum / count, 0, 0.002);
  EXPECT_NEAR(std::sqrt(squares / count), std::sqrt(2.0 / 192), 0.001);
  for (float value : weights[1]) ASSERT_EQ(value, 0.0f);
  const Model deeper = MakeModel(kInput + std::string("layer { relu {} }") + fc + kLoss);
  EXPECT_EQ(MakeInitialWeights(deeper, 3)[0], weights[0]) << "another layer changes no weights";
  EXPECT_NE(MakeInitialWeights(model, 4)[0], weights[0]);
}

// Mean, deviation, and the largest magnitude.
std::array<double, 3> Measure(const std::vector<float>& values) {
  double sum = 0;
  double squares = 0;
  double largest = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
    largest = std::max<double>(largest, std::abs(value));
  }
  const auto count = static_cast<double>(values.size());
  return {sum / count, std::sqrt(squares / count), largest};
}

TEST(ModelTest, InitialWeightsHaveTheirDistributions) {
  const auto measure = [](const std::string& initial) {
    const Model model = MakeModel(
        kInput + ("layer { convolution { filters: 400 kernel: 4 initial { " + initial + " } } }") +
        kLoss);  // 19,200 weights, fan_in 48, fan_out 6,400
    return Measure(MakeInitialWeights(model, 3)[0]);
  };
  const auto [he_mean, he, he_largest] = measure("he_normal { fan_out: true }");
  EXPECT_NEAR(he_mean, 0, 0.001);
  EXPECT_NEAR(he, std::sqrt(2.0 / 6400), 0.0004);
  const auto [glorot_mean, glorot, glorot_largest] = measure("glorot_uniform {}");
  const double limit = std::sqrt(6.0 / 6448);
  EXPECT_NEAR(glorot_mean, 0, 0.001);
  EXPECT_NEAR(glorot, limit / std::sqrt(3.0), 0.0005);
  EXPECT_NEAR(glorot_largest, limit, 0.0001);
  const auto [mean, deviation, largest] = measure("normal { deviation: 0.5 }");
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(deviation, 0.5, 0.02);
  EXPECT_GT(largest, 1.5);
  const auto [cut_mean, cut, cut_largest] = measure("truncated_normal { deviation: 0.5 }");
  EXPECT_NEAR(cut_mean, 0, 0.02);
  EXPECT_NEAR(cut, 0.5 * 0.8796, 0.02);
  EXPECT_LE(cut_largest, 1.0);
  EXPECT_GT(cut_largest, 0.99);
  EXPECT_EQ(measure("zeros {}")[2], 0);
  EXPECT_EQ(measure("ones {}")[1], 1);
  EXPECT_MESSAGE(ErrorOf(kInput +
                         std::string("layer { fully_connected { outputs: 4 initial { "
                                     "normal {} } } }") +
                         kLoss),
                 absl::StatusCode::kInvalidArgument);
}

TEST(ModelTest, InputsOfBytesSayHowTheyAreNormalised) {
  const auto input = [](const std::string& more) {
    return "layer { input_layer { shape: [8, 8, 3] " + more + " } }" + kLoss;
  };
  const Model model = MakeModel(input("dtype: \"uint8\" mean: 128 stddev: [2, 3, 4]"));
  EXPECT_EQ(model.inputs[0].mean, std::vector<double>({128, 128, 128}));
  EXPECT_TRUE(
      model.ToText().starts_with("input [8, 8, 3], uint8, mean 128/128/128, stddev 2/3/4\n"))
      << model.ToText();
  const Schema schema({{"image", DType::kU8, {8, 8, 3}}, {"label", DType::kI64, {}}});
  EXPECT_TRUE(CheckFields(model, schema).ok());
  const auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_MESSAGE(ErrorOf(input("dtype: \"float64\"")), kBad);
  EXPECT_MESSAGE(ErrorOf(input("mean: 128")), kBad);
  EXPECT_MESSAGE(ErrorOf(input("dtype: \"uint8\" mean: [1, 2]")), kBad);
  EXPECT_MESSAGE(ErrorOf(input("dtype: \"uint8\" stddev: 0")), kBad);
  EXPECT_MESSAGE(ErrorOf(kInput + std::string("layer { dropout { rate: 1 } }") + kLoss), kBad);
}

TEST(ModelTest, ATransposedConvolutionUndoesTheShapesOfAConvolution) {
  const auto shape = [](const std::string& options) {
    const Model model = MakeModel(
        "layer { input_layer { shape: [4, 5, 2] } } layer { "
        "transposed_convolution { filters: 6 " +
        options + " } }" + kLoss);
    EXPECT_EQ(model.parameters[0].shape[0], 2);
    return model.values[1].shape;
  };
  EXPECT_EQ(shape("kernel: 5 stride: 2 same: true"), Shape({8, 10, 6}));
  EXPECT_EQ(shape("kernel: 4 stride: 2 padding: 1"), Shape({8, 10, 6}));
  EXPECT_EQ(shape("kernel: [3, 1] groups: 2 dilation: [2, 1]"), Shape({8, 5, 6}));
  const auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_MESSAGE(ErrorOf(std::string(kInput) +
                         "layer { transposed_convolution { filters: 1 "
                         "kernel: 2 stride: 3 same: true } }" +
                         kLoss),
                 kBad);
  EXPECT_MESSAGE(ErrorOf("layer { input_layer { shape: [1, 1, 1] } } "
                         "layer { transposed_convolution { filters: 1 kernel: 2 padding: 1 } }" +
                         std::string(kLoss)),
                 kBad);
}

TEST(ModelTest, FileErrorsNameLineAndColumn) {
  const TempFolder folder;
  const std::string path = folder / "lines.pbtxt";
  std::ofstream(path) << "layer { input_layer { shape: [8, 8, 3] } }\n"
                         "layer { name: \"c\" convolution { filters: 2 kernel: 20 } }\n"
                      << kLoss;
  std::set<std::string> used;
  const auto model = LoadModel(path, {}, used);
  EXPECT_MESSAGE(model.status(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadModel(path + ".none", {}, used).status().code(), absl::StatusCode::kNotFound);
}

TEST(ModelTest, FieldsOfThePipelineAreCompared) {
  const Model model = MakeModel(std::string(kInput) + kLoss);
  Schema schema({{"image", DType::kF32, {8, 8, 3}}, {"label", DType::kI64, {}}});
  EXPECT_TRUE(CheckFields(model, schema).ok());
  schema.Set({"image", DType::kU8, {8, 8, 3}});
  EXPECT_MESSAGE(CheckFields(model, schema), absl::StatusCode::kInvalidArgument);
  const Model halves =
      MakeModel("layer { input_layer { shape: [8, 8, 3] dtype: 'float16' } }" + std::string(kLoss));
  schema.Set({"image", DType::kF16, {8, 8, 3}});
  EXPECT_TRUE(CheckFields(halves, schema).ok());
  EXPECT_TRUE(halves.ToText().starts_with("input [8, 8, 3], float16\n"));
  schema.Set({"image", DType::kF64, {8, 8, 3}});
  EXPECT_MESSAGE(CheckFields(halves, schema), absl::StatusCode::kInvalidArgument);
  schema.Set({"image", DType::kF16, {8, 4, 3}});
  EXPECT_MESSAGE(CheckFields(halves, schema), absl::StatusCode::kInvalidArgument);
  schema.Set({"image", DType::kF32, {8, 8, 3}});
  schema.Remove("label");
  EXPECT_EQ(CheckFields(model, schema).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::trainer
