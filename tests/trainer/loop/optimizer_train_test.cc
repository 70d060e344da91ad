// Trainings with settings of parameters, and with an average of the weights.

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST_F(TrainTest, AFrozenParameterKeepsItsFirstWeights) {
  std::set<std::string> used;
  const auto model = LoadModel(folder_ / "model.pbtxt", {}, used);
  ASSERT_TRUE(model.ok());
  const TensorSet before = MakeInitialWeights(*model, 3);
  for (const char* const reduction : {"", "shard_optimizer: true"}) {
    RemoveCheckpoints();
    WriteJob("checkpoints", "momentum: 0.9 group { pattern: \"conv1/*\" frozen: true }",
             absl::StrCat("epochs: 1 reduction { ", reduction, " }"));
    const auto outcome = Run(2);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const TensorFile file = Load(outcome->checkpoint);
    for (size_t i = 0; i < before.size(); ++i) {
      const std::string& name = model->parameters[i].name;
      EXPECT_EQ(file.tensors.at(name).data == before[i], name.starts_with("conv1/")) << name;
    }
    EXPECT_THAT(lines_, Contains(HasSubstr("conv1/*: 2 parameters, frozen; the rest: 2")));
  }
}

constexpr char kWithAverage[] = "base_lr: 0.05 momentum: 0.9 ema { decay: 0.75 warmup: true }";

TEST_F(TrainTest, TheAverageOfTheWeightsIsTheFormulas) {
  std::set<std::string> used;
  const auto model = LoadModel(folder_ / "model.pbtxt", {}, used);
  ASSERT_TRUE(model.ok());
  TensorSet expected = MakeInitialWeights(*model, 3);
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 0) return;
    options.on_weights = [&](uint64_t step, TensorSet& weights) {
      const double n = static_cast<double>(step);
      const double d = std::min(0.75, (1 + n) / (10 + n));
      for (size_t i = 0; i < weights.size(); ++i) {
        for (size_t k = 0; k < weights[i].size(); ++k) {
          expected[i][k] = static_cast<float>(d * expected[i][k] + (1 - d) * weights[i][k]);
        }
      }
    };
  };
  for (const char* const reduction : {"", "shard_optimizer: true"}) {
    RemoveCheckpoints();
    expected = MakeInitialWeights(*model, 3);
    WriteJob("checkpoints", kWithAverage, absl::StrCat("epochs: 2 reduction { ", reduction, " }"));
    const auto outcome = Run(2);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const TensorFile file = Load(outcome->checkpoint);
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::vector<float>& actual = file.tensors.at("ema/" + model->parameters[i].name).data;
      for (size_t k = 0; k < actual.size(); ++k) EXPECT_NEAR(actual[k], expected[i][k], 1e-6);
    }
  }
}

TEST_F(TrainTest, ATrainingWithAnAverageContinuesBitForBit) {
  WriteJob("checkpoints", kWithAverage);
  const auto whole = Run(1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const TensorFile expected = Load(whole->checkpoint);
  for (const int step : {0, 4}) {
    RemoveCheckpoints();
    ASSERT_TRUE(Run(1, false, step).ok());
    const auto resumed = Run(1, true);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ(resumed->test_accuracy, whole->test_accuracy);
    for (const auto& [name, tensor] : Load(resumed->checkpoint).tensors) {
      EXPECT_EQ(tensor.data, expected.tensors.at(name).data) << name;
    }
  }
}

TEST_F(TrainTest, EvaluationUsesTheAverage) {
  const auto losses = [this](const std::string& average) {
    RemoveCheckpoints();
    WriteJob("checkpoints", "base_lr: 0.05 momentum: 0.9 " + average);
    EXPECT_TRUE(Run(2).ok());
    std::vector<std::string> found;
    for (const std::string& line : lines_) {
      if (line.starts_with("epoch ")) found.push_back(line.substr(line.find("loss")));
    }
    return found;
  };
  const std::vector<std::string> plain = losses("");
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_NE(plain[0], plain[1]);
  EXPECT_EQ(losses("ema { decay: 0 }"), plain) << "the newest weights";
  const std::vector<std::string> slow = losses("ema { decay: 0.9999999 }");
  ASSERT_EQ(slow.size(), 2u);
  EXPECT_EQ(slow[0], slow[1]) << "the first weights";
  EXPECT_NE(slow[0], plain[0]);
}

TEST_F(TrainTest, AGroupWithoutAParameterIsRefusedWithItsPlace) {
  WriteJob("checkpoints", "group { pattern: \"bn*\" weight_decay: 0 }");
  EXPECT_MESSAGE(Run(2).status(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::trainer
