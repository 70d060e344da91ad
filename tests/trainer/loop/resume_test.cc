// A training that continues from a checkpoint.

#include <gmock/gmock.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// S-TRAIN-4.
TEST_F(TrainTest, StoppedAtAnyStepItContinuesBitForBit) {
  const auto whole = Run(1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const TensorFile expected = Load(whole->checkpoint);
  for (int step = 0; step < kSteps; ++step) {
    RemoveCheckpoints();
    const auto stopped = Run(1, false, step);
    ASSERT_TRUE(stopped.ok()) << stopped.status();
    ASSERT_TRUE(stopped->stopped);
    ASSERT_EQ(stopped->steps, static_cast<uint64_t>(step));
    const auto resumed = Run(1, true);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ(resumed->last_loss, whole->last_loss) << step;
    EXPECT_EQ(resumed->test_accuracy, whole->test_accuracy) << step;
    const TensorFile actual = Load(resumed->checkpoint);
    EXPECT_EQ(actual.metadata, expected.metadata) << step;
    for (const auto& [name, tensor] : expected.tensors) {
      EXPECT_EQ(actual.tensors.at(name).data, tensor.data) << name << " at " << step;
    }
  }
}

TEST_F(TrainTest, ACheckpointIsNeverOverwrittenUnasked) {
  ASSERT_TRUE(Run(1).ok());
  for (const int world : {1, 2}) {
    const auto again = Run(world);
    EXPECT_MESSAGE(again.status(), absl::StatusCode::kAlreadyExists);
  }
}

TEST_F(TrainTest, ResumeWithoutACheckpointIsNotFound) {
  EXPECT_EQ(Run(2, true).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TrainTest, ResumingAFinishedJobOnlyEvaluates) {
  const auto whole = Run(1);
  ASSERT_TRUE(whole.ok());
  const auto again = Run(2, true);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(steps_.empty());
  EXPECT_EQ(again->test_accuracy, whole->test_accuracy);
  EXPECT_EQ(again->checkpoint, whole->checkpoint);
}

// Saved at steps 3, 6, 9 and 10.
TEST_F(TrainTest, ADamagedNewestCheckpointIsSetAsideAndTheOneBeforeTaken) {
  const auto whole = Run(1);
  ASSERT_TRUE(whole.ok());
  const TensorFile expected = Load(whole->checkpoint);
  const fs::path checkpoints = folder_ / "checkpoints";
  for (const char* const name : {"checkpoint-00000010", "checkpoint-00000009"}) {
    const fs::path path = checkpoints / absl::StrCat(name, ".safetensors");
    fs::resize_file(path, fs::file_size(path) - 1);
  }
  std::vector<std::string> warnings;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 0) return;
    options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  };
  const auto again = Run(1, true);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_THAT(warnings, SizeIs(2));
  for (const std::string& warning : warnings) EXPECT_MESSAGE(warning);
  EXPECT_THAT(steps_, SizeIs(kSteps - 6));
  EXPECT_TRUE(fs::exists(checkpoints / "checkpoint-00000009.safetensors.damaged"));
  for (const auto& [name, tensor] : Load(again->checkpoint).tensors) {
    EXPECT_EQ(tensor.data, expected.tensors.at(name).data) << name;
  }
}

TEST_F(TrainTest, NothingButDamagedCheckpointsIsDataLossAndTheyStay) {
  ASSERT_TRUE(Run(1).ok());
  std::vector<fs::path> before;
  for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) {
    before.push_back(entry.path());
    fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
  }
  const auto again = Run(2, true);
  EXPECT_MESSAGE(again.status(), absl::StatusCode::kDataLoss);
  for (const fs::path& path : before) EXPECT_TRUE(fs::exists(path)) << path;
}

TEST_F(TrainTest, AnotherModelPlanOrDataIsFailedPrecondition) {
  ASSERT_TRUE(Run(1, false, 4).ok());
  WriteModel(4);
  auto again = Run(2, true);
  EXPECT_MESSAGE(again.status(), absl::StatusCode::kFailedPrecondition);
  WriteModel(8);
  Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", 7, true));
  again = Run(2, true);
  EXPECT_MESSAGE(again.status(), absl::StatusCode::kFailedPrecondition);
  Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", 8, true));
  WriteShard(folder_ / "train-2.tfrecord", 50, 3);
  again = Run(2, true);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("--force goes on all the same"));
}

TEST_F(TrainTest, AnotherJobIsFailedPreconditionAndTheFieldIsNamed) {
  ASSERT_TRUE(Run(1, false, 4).ok());
  WriteJob("checkpoints",
           "base_lr: 0.05 momentum: 0.8 weight_decay: 0.001 warmup_steps: 3 cosine {}");
  auto again = Run(2, true);
  EXPECT_MESSAGE(again.status(), absl::StatusCode::kFailedPrecondition);
  WriteJob("checkpoints", "",
           "epochs: 2 pipeline_threads: 2 memory_budget_mib: 99 recompute_activations: true "
           "cuda_graphs: false "
           "reduction { bucket_bytes: 100000 "
           "progress_policy: \"inline\" digest_every: 1 accumulate_steps: 1 exact: true }");
  again = Run(1, true);
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(TrainTest, AConstantRateMayGoOnForMoreEpochs) {
  WriteJob("checkpoints", "base_lr: 0.05");
  ASSERT_TRUE(Run(1).ok());
  WriteJob("checkpoints", "base_lr: 0.05", "epochs: 3");
  const auto longer = Run(1, true);
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(longer->steps, static_cast<uint64_t>(3 * kStepsPerEpoch));
}

// The rates of a cosine depend on its end: those of the new length count from the next step on.
TEST_F(TrainTest, AnyJobMayGoOnForMoreEpochs) {
  std::vector<std::string> warnings;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  };
  WriteJob("checkpoints", "base_lr: 0.05 cosine {}", "epochs: 1");
  ASSERT_TRUE(Run(1).ok());
  EXPECT_THAT(warnings, SizeIs(0));
  WriteJob("checkpoints", "base_lr: 0.05 cosine {}", "epochs: 2");
  const auto longer = Run(1, true);
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(longer->steps, static_cast<uint64_t>(2 * kStepsPerEpoch));
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_MESSAGE(warnings[0]);
  EXPECT_THAT(steps_, SizeIs(kStepsPerEpoch));
  EXPECT_THAT(steps_[0], HasSubstr("lr 0.025")) << "the middle of the cosine";
}

TEST_F(TrainTest, ByForceAnotherJobGoesOnAndSaysWhatIsLost) {
  WriteJob("checkpoints", "base_lr: 0.05 momentum: 0.9");
  ASSERT_TRUE(Run(1, false, 4).ok());
  std::vector<std::string> warnings;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    options.force = options.resume;
    if (communicator.rank() != 0) return;
    options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  };
  WriteJob("checkpoints", "base_lr: 0.01 adam {} ema { decay: 0.5 }");
  const auto forced = Run(2, true);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ(forced->steps, static_cast<uint64_t>(kSteps));
  ASSERT_THAT(warnings, SizeIs(4));
  for (const std::string& warning : warnings) EXPECT_MESSAGE(warning);
}

TEST_F(TrainTest, ByForceAnotherPlanOrDataGoOnAndSayWhatIsLost) {
  std::vector<std::string> warnings;
  ASSERT_TRUE(Run(1, false, 4).ok());
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    options.force = options.resume;
    if (communicator.rank() != 0) return;
    options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  };
  Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", 7, true));
  WriteShard(folder_ / "train-2.tfrecord", 50, 3);
  const auto forced = Run(2, true);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_THAT(warnings, Contains(HasSubstr("resuming by force, at step 4 and the same batch")));
  EXPECT_THAT(warnings, Contains(HasSubstr("samples may be missing or come twice")));
  WriteModel(4);
  EXPECT_EQ(Run(2, true).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace::trainer
