// Models with buffers, end to end: over ranks, over checkpoints, and the networks that they are
// for.

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

class BatchNormTrainTest : public TrainTest {
 protected:
  BatchNormTrainTest() {
    Write(folder_ / "model.pbtxt",
          "layer { input_layer { shape: [6, 6, 1] } }\n"
          "layer { convolution { filters: 8 kernel: 3 bias: false } }\n"
          "layer { batch_norm {} } layer { relu {} } layer { pool { kernel: 2 } }\n"
          "layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} }\n");
  }

  static void ExpectSameTensors(const TensorFile& actual, const TensorFile& expected) {
    ASSERT_EQ(actual.tensors.size(), expected.tensors.size());
    for (const auto& [name, tensor] : expected.tensors) {
      EXPECT_EQ(actual.tensors.at(name).data, tensor.data) << name;
    }
  }
};

TEST_F(BatchNormTrainTest, BuffersAreSavedAndTheyFollowTheBatches) {
  const auto outcome = Run(1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const TensorFile file = Load(outcome->checkpoint);
  ASSERT_TRUE(file.tensors.contains("bn1/running_mean"));
  const std::vector<float>& variance = file.tensors.at("bn1/running_var").data;
  ASSERT_EQ(variance.size(), 8u);
  for (const float value : variance) EXPECT_NE(value, 1.0f);
}

TEST_F(BatchNormTrainTest, StoppedAtAnyStepItContinuesBitForBitOnAnyNumberOfRanks) {
  for (const int world : {1, 2}) {
    RemoveCheckpoints();
    const auto whole = Run(world);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const TensorFile expected = Load(whole->checkpoint);
    for (const int step : {1, 4, 7}) {
      RemoveCheckpoints();
      ASSERT_TRUE(Run(world, false, step).ok());
      const auto resumed = Run(world, true);
      ASSERT_TRUE(resumed.ok()) << resumed.status();
      EXPECT_EQ(resumed->test_accuracy, whole->test_accuracy);
      ExpectSameTensors(Load(resumed->checkpoint), expected);
    }
  }
}

// The last batch of an epoch has 5 rows: ranks have 1 to 3 valid ones of it.
TEST_F(BatchNormTrainTest, AllRanksHaveTheSameBuffersAfterEveryStep) {
  for (const std::string& more :
       {std::string("reduction { digest_every: 1 }"),
        std::string("reduction { digest_every: 1 stale_steps: 2 }"),
        std::string("reduction { digest_every: 1 accumulate_steps: 2 }")}) {
    SCOPED_TRACE(more);
    RemoveCheckpoints();
    WriteJob("checkpoints", "", absl::StrCat("epochs: 2 ", more));
    const auto outcome = Run(3);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
  }
}

// Running means over two ranks are those of one: the mean of means by rows.
TEST_F(BatchNormTrainTest, RunningMeansDoNotDependOnTheNumberOfRanks) {
  WriteJob("checkpoints", "base_lr: 0");
  const auto one = Run(1);
  ASSERT_TRUE(one.ok()) << one.status();
  const TensorFile expected = Load(one->checkpoint);
  RemoveCheckpoints();
  const auto two = Run(2);
  ASSERT_TRUE(two.ok()) << two.status();
  const TensorFile actual = Load(two->checkpoint);
  const std::vector<float>& means = actual.tensors.at("bn1/running_mean").data;
  for (size_t i = 0; i < means.size(); ++i) {
    EXPECT_NEAR(means[i], expected.tensors.at("bn1/running_mean").data[i], 1e-6);
  }
}

TEST_F(BatchNormTrainTest, ACheckpointWithoutTheBuffersIsDataLoss) {
  const auto whole = Run(1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  TensorFile file = Load(whole->checkpoint);
  std::vector<TensorRef> tensors;
  for (const auto& [name, tensor] : file.tensors) {
    if (name != "bn1/running_var") tensors.push_back({name, tensor.shape, tensor.data});
  }
  file.metadata.erase("digest");
  RemoveCheckpoints();  // the one before would be taken
  ASSERT_TRUE(fs::create_directory(folder_ / "checkpoints"));
  ASSERT_TRUE(WriteSafetensors(whole->checkpoint, file.metadata, tensors).ok());
  EXPECT_MESSAGE(Run(1, true).status(), absl::StatusCode::kDataLoss);
}

// A ResNet-18 of 2 to 16 channels: a strided stem, four groups of two blocks, shortcuts with a
// convolution where the size changes.
std::string Block(int number, int channels, int stride, const std::string& input) {
  const std::string name = absl::StrCat("b", number);
  std::string shortcut = input;
  std::string text = absl::StrCat(
      "layer { name: '", name, ".conv1' input: '", input, "' convolution { filters: ", channels,
      " kernel: 3 stride: ", stride, " padding: 1 bias: false } }\n",
      "layer { batch_norm {} } layer { relu {} }\n", "layer { name: '", name,
      ".conv2' convolution { filters: ", channels, " kernel: 3 padding: 1 bias: false } }\n",
      "layer { name: '", name, ".bn2' batch_norm { zero_weights: true } }\n");
  if (stride > 1) {
    shortcut = name + ".down";
    absl::StrAppend(&text, "layer { input: '", input, "' convolution { filters: ", channels,
                    " kernel: 1 stride: ", stride, " bias: false } }\n", "layer { name: '",
                    shortcut, "' batch_norm {} }\n");
  }
  absl::StrAppend(&text, "layer { input: ['", name, ".bn2', '", shortcut, "'] add {} }\n",
                  "layer { name: '", name, "' relu {} }\n");
  return text;
}

std::string NarrowResNet18() {
  std::string text =
      "layer { input_layer { shape: [6, 6, 1] } }\n"
      "layer { convolution { filters: 2 kernel: 3 padding: 1 bias: false } }\n"
      "layer { batch_norm {} } layer { name: 'b0' relu {} }\n";
  for (int i = 1; i <= 8; ++i) {
    absl::StrAppend(
        &text, Block(i, 1 << ((i + 1) / 2), i > 2 && i % 2 == 1 ? 2 : 1, absl::StrCat("b", i - 1)));
  }
  return text + "layer { global_average_pool {} } layer { fully_connected { outputs: 3 } }\n" +
         "layer { softmax_cross_entropy {} }\n";
}

TEST_F(BatchNormTrainTest, AResNetLearnsAndTwoRunsHaveTheSameBits) {
  Write(folder_ / "model.pbtxt", NarrowResNet18());
  WriteJob("checkpoints", "base_lr: 0.005 momentum: 0.9", "epochs: 4");
  const auto first = Run(2);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(steps_.size(), 20u);
  EXPECT_LT(first->last_loss, 0.95) << "it begins at log 3";
  const TensorFile expected = Load(first->checkpoint);
  RemoveCheckpoints();
  const auto second = Run(2);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->last_loss, first->last_loss);
  ExpectSameTensors(Load(second->checkpoint), expected);
}

}  // namespace
}  // namespace millrace::trainer
