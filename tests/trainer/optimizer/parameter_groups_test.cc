#include "trainer/optimizer/parameter_groups.h"

#include <gmock/gmock.h>

#include "tests/messages.h"
#include "tests/trainer/model/test_nets.h"
#include "tests/trainer/optimizer/optimizer_specs.h"

namespace millrace::trainer {
namespace {

// conv1/weights, conv1/bias, fc1/weights, fc1/bias.
Model MakeTwoLayers() {
  return MakeModel(R"(layer { input_layer { shape: [4, 4, 1] } }
    layer { convolution { filters: 2 kernel: 3 } } layer { fully_connected { outputs: 2 } }
    layer { softmax_cross_entropy {} })");
}

TEST(ParameterGroupsTest, WithoutGroupsOnlyParametersOfSeveralDimensionsDecay) {
  const Model model = MakeTwoLayers();
  const auto settings = SettingsOf(ParseOptimizer("weight_decay: 0.5"), model);
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    EXPECT_EQ(settings[i].weight_decay, model.parameters[i].is_bias ? 0 : 0.5f);
    EXPECT_EQ(settings[i].lr_scale, 1);
    EXPECT_FALSE(settings[i].frozen);
  }
  for (const auto& all : SettingsOf(ParseOptimizer("weight_decay: 0.5 decay_bias: true"), model)) {
    EXPECT_EQ(all.weight_decay, 0.5f);
  }
}

TEST(ParameterGroupsTest, TheScaleOfANormDoesNotDecay) {
  Model model = MakeTwoLayers();
  model.parameters.push_back({"bn1/scale", Shape{2}, 1, /*is_bias=*/false});
  EXPECT_EQ(SettingsOf(ParseOptimizer("weight_decay: 0.5"), model).back().weight_decay, 0);
}

TEST(ParameterGroupsTest, TheFirstGroupThatMatchesCounts) {
  const Model model = MakeTwoLayers();
  const OptimizerSpec spec = ParseOptimizer(R"(weight_decay: 0.5
    group { pattern: "conv1/*" frozen: true }
    group { pattern: "fc?/bias" pattern: "conv1/bias" weight_decay: 0.25 lr_scale: 2 }
    group { pattern: "*s" lr_scale: 0.5 })");
  const auto settings = SettingsOf(spec, model);
  ASSERT_EQ(settings.size(), 4u);
  EXPECT_TRUE(settings[0].frozen);
  EXPECT_TRUE(settings[1].frozen);
  EXPECT_EQ(settings[1].lr_scale, 1);
  EXPECT_EQ(settings[2].lr_scale, 0.5);
  EXPECT_EQ(settings[2].weight_decay, 0.5f);
  EXPECT_EQ(settings[3].weight_decay, 0.25f);
  EXPECT_EQ(settings[3].lr_scale, 2);
  EXPECT_EQ(DescribeGroups(spec, model),
            "conv1/*: 2 parameters, frozen; fc?/bias conv1/bias: 1 parameter, weight decay 0.25, "
            "rate times 2; *s: 1 parameter, rate times 0.5; the rest: 0");
}

TEST(ParameterGroupsTest, APatternWithoutAParameterIsNamed) {
  const auto bad = CheckGroups(ParseOptimizer(R"(group { pattern: "*" }
    group { pattern: "fc1/*" pattern: "bn*" })"),
                               MakeTwoLayers());
  ASSERT_TRUE(bad.has_value());
  EXPECT_MESSAGE(bad->name() + ": " + bad->why);
}

TEST(ParameterGroupsTest, AnUpdateFollowsTheSettings) {
  const Model model = MakeTwoLayers();
  Optimizer optimizer = MakeWhole(R"(momentum: 0.5 group { pattern: "conv1/weights" frozen: true }
    group { pattern: "*" lr_scale: 4 weight_decay: 0.5 })",
                                  model);
  std::vector<float> frozen(18, 1);
  optimizer.Apply(0, {0, 1, 0.125}, 1, std::vector<float>(18, 1), frozen);
  EXPECT_EQ(frozen, std::vector<float>(18, 1));
  EXPECT_EQ(optimizer.slots()[0].tensors[0], std::vector<float>(18, 0));
  std::vector<float> bias = {2, 4};
  optimizer.Apply(1, {0, 1, 0.125}, 1, std::vector<float>{1, 1}, bias);
  EXPECT_EQ(bias, (std::vector<float>{1, 2.5f}));
}

}  // namespace
}  // namespace millrace::trainer
