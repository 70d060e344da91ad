// Models beyond classifiers of one chain, end to end.

#include <gmock/gmock.h>

#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class GraphTrainTest : public TrainTest {
 protected:
  void WriteLayers(const std::string& layers) {
    Write(folder_ / "model.pbtxt", "layer { input_layer { shape: [6, 6, 1] } }\n" + layers);
  }
};

// Two ranks see other rows, so only sums round differently.
TEST_F(GraphTrainTest, DropoutDropsTheSameOnAnyNumberOfRanksAndAfterAStop) {
  WriteLayers(
      "layer { fully_connected { outputs: 32 } } layer { relu {} } layer { dropout {} }\n"
      "layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} }\n");
  const auto one = Run(1);
  ASSERT_TRUE(one.ok()) << one.status();
  const TensorFile expected = Load(one->checkpoint);
  RemoveCheckpoints();
  ASSERT_TRUE(Run(1, false, 4).ok());
  const auto resumed = Run(1, true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  const TensorFile actual = Load(resumed->checkpoint);
  EXPECT_EQ(actual.tensors.at("fc1/weights").data, expected.tensors.at("fc1/weights").data);
  RemoveCheckpoints();
  const auto two = Run(2);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_NEAR(two->last_loss, one->last_loss, 1e-5);
}

// The target is the input itself; the classes are read too.
TEST_F(GraphTrainTest, AnAutoencoderWithTwoLossesLearnsAndItsErrorIsShown) {
  WriteLayers(
      "layer { name: 'code' convolution { filters: 4 kernel: 3 stride: 2 same: true } }\n"
      "layer { leaky_relu { slope: 0.2 } }\n"
      "layer { transposed_convolution { filters: 1 kernel: 4 stride: 2 same: true } }\n"
      "layer { mean_squared_error { target: 'image' } }\n"
      "layer { input: 'code' fully_connected { outputs: 3 } }\n"
      "layer { softmax_cross_entropy { weight: 0.1 } }\n");
  WriteJob("checkpoints", "base_lr: 0.05 momentum: 0.9", "epochs: 6");
  double first = 0;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.print = [&, print = options.print](std::string_view line) {
      print(line);
      if (line.starts_with("step 1/"))
        first = std::stod(std::string(line.substr(line.find("loss ") + 5)));
    };
  };
  const auto outcome = Run(2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_LT(outcome->last_loss, 0.7 * first);
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("epoch 6: test error"),
                                     HasSubstr("(mean absolute), loss"))));
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("test accuracy"))));
}

TEST_F(GraphTrainTest, RecomputedActivationsChangeNoBitOfACheckpoint) {
  std::string layers;
  for (const char* const drop : {"", "layer { dropout { rate: 0.2 } }", "", ""}) {
    layers += "layer { convolution { filters: 6 kernel: 3 padding: 1 } } layer { batch_norm {} }\n";
    layers += absl::StrCat("layer { relu {} } ", drop, "\n");
  }
  WriteLayers(layers +
              "layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} }");
  std::vector<TensorFile> files;
  for (const char* const more : {"", " recompute_activations: true"}) {
    RemoveCheckpoints();
    WriteJob("checkpoints", "", absl::StrCat("epochs: 2", more));
    const auto outcome = Run(2);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    files.push_back(Load(outcome->checkpoint));
    const auto says_so = Contains(AllOf(HasSubstr("backend"), HasSubstr("activations recomputed")));
    EXPECT_EQ(::testing::Value(lines_, says_so), files.size() == 2);
  }
  ASSERT_EQ(files[0].tensors.size(), files[1].tensors.size());
  for (const auto& [name, tensor] : files[0].tensors) {
    EXPECT_EQ(files[1].tensors.at(name).data, tensor.data) << name;
  }
}

TEST_F(GraphTrainTest, ATargetOfAnotherShapeIsRefusedBeforeTraining) {
  WriteLayers(
      "layer { fully_connected { outputs: 2 } }\n"
      "layer { mean_absolute_error { target: 'image' } }\n");
  EXPECT_MESSAGE(Run(1).status(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::trainer
