// Evaluations of a trained model, without a training.

#include <gmock/gmock.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/messages.h"
#include "tests/trainer/loop/inference_fixture.h"
#include "trainer/weights.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kWithAverage[] = "base_lr: 0.05 momentum: 0.9 ema { decay: 0.75 }";

void Cut(const fs::path& path) { fs::resize_file(path, fs::file_size(path) - 1); }

TEST_F(InferenceTest, EvaluatesToTheBitsThatTheTrainingPrinted) {
  for (const int world : {1, 2, 3}) {
    RemoveCheckpoints();
    const TrainOutcome trained = Train(world);
    const auto outcome = Evaluate(world);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->metrics.mean_loss, trained.test_loss);
    EXPECT_EQ(AccuracyOf(*outcome), trained.test_accuracy);
    EXPECT_EQ(outcome->metrics.total, kTestSamples);
    EXPECT_EQ(outcome->weights.path, trained.checkpoint);
    EXPECT_EQ(outcome->weights.step, static_cast<uint64_t>(kSteps));
    EXPECT_FALSE(outcome->weights.is_average);
  }
}

// On a processor without bfloat16 it is float32 in both.
TEST_F(InferenceTest, EvaluatesInThePrecisionOfTheJob) {
  WriteJob("checkpoints", "", "epochs: 2 precision: \"auto\"");
  const TrainOutcome trained = Train();
  const auto outcome = Evaluate();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->metrics.mean_loss, trained.test_loss);
}

TEST_F(InferenceTest, BuffersAreThoseOfTheCheckpoint) {
  Write(folder_ / "model.pbtxt",
        "layer { input_layer { shape: [6, 6, 1] } }\n"
        "layer { convolution { filters: 8 kernel: 3 bias: false } }\n"
        "layer { batch_norm {} } layer { relu {} } layer { pool { kernel: 2 } }\n"
        "layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} }\n");
  for (const int world : {1, 2}) {
    RemoveCheckpoints();
    const TrainOutcome trained = Train(world);
    const auto outcome = Evaluate(world);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->metrics.mean_loss, trained.test_loss);
  }
}

TEST_F(InferenceTest, TheAverageOfTheWeightsIsTakenUnlessItIsNotWanted) {
  WriteJob("checkpoints", kWithAverage);
  const TrainOutcome trained = Train();
  const auto average = Evaluate();
  ASSERT_TRUE(average.ok()) << average.status();
  EXPECT_TRUE(average->weights.is_average);
  EXPECT_EQ(average->metrics.mean_loss, trained.test_loss);
  options_.use_average = false;
  const auto raw = Evaluate();
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_FALSE(raw->weights.is_average);
  EXPECT_NE(raw->metrics.mean_loss, trained.test_loss);
}

TEST_F(InferenceTest, ACheckpointWithoutAnAverageIsSaidToHaveNone) {
  Train();
  WriteJob("checkpoints", kWithAverage);
  EXPECT_MESSAGE(Evaluate(), absl::StatusCode::kNotFound);
}

TEST_F(InferenceTest, WeightsOfPyTorchGiveTheSameBits) {
  const TrainOutcome trained = Train();
  WeightsOptions weights;
  weights.job_path = options_.job_path;
  weights.variables = options_.variables;
  weights.to = folder_ / "torch.safetensors";
  ASSERT_TRUE(ExportWeights(weights).ok());
  options_.checkpoint = weights.to;
  const auto outcome = Evaluate();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->metrics.mean_loss, trained.test_loss);
  EXPECT_EQ(outcome->weights.step, std::nullopt);
}

TEST_F(InferenceTest, ACutNewestCheckpointIsPassedOverWithAWarningAndStays) {
  const TrainOutcome trained = Train();
  Cut(trained.checkpoint);
  for (const bool by_name : {false, true}) {
    options_.checkpoint = by_name ? std::string(folder_ / "checkpoints") : "";
    warnings_.clear();
    const auto outcome = Evaluate(2);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->weights.step, 9u);
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("checkpoint-00000009.safetensors is taken")));
    EXPECT_TRUE(fs::exists(trained.checkpoint));
  }
  options_.checkpoint = trained.checkpoint;
  EXPECT_EQ(Evaluate().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(InferenceTest, WhenAllCheckpointsAreCutTheNewestIsNamed) {
  const TrainOutcome trained = Train();
  for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) Cut(entry.path());
  const auto outcome = Evaluate();
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr(trained.checkpoint));
}

TEST_F(InferenceTest, WeightsThatAreNotThereAreNamed) {
  EXPECT_MESSAGE(Evaluate(), absl::StatusCode::kNotFound, "folder");
  options_.checkpoint = folder_ / "none.safetensors";
  EXPECT_MESSAGE(Evaluate(2), absl::StatusCode::kNotFound, "file");
  options_.checkpoint.clear();
  WriteJob("");
  EXPECT_MESSAGE(Evaluate(), absl::StatusCode::kNotFound, "job");
}

TEST_F(InferenceTest, ACheckpointOfAnotherModelNamesLayersAndShapes) {
  Train();
  WriteModel(4);
  EXPECT_MESSAGE(Evaluate(), absl::StatusCode::kInvalidArgument);
}

TEST_F(InferenceTest, AModelOfTheSameShapesIsStillAnother) {
  Train();
  std::ifstream file(folder_ / "model.pbtxt");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  Write(folder_ / "model.pbtxt", text.replace(text.find("relu {}"), 7, "silu {}"));
  EXPECT_EQ(Evaluate().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(InferenceTest, AnotherPlanTakesThePlaceOfTheJobs) {
  Train();
  Write(folder_ / "other.pbtxt", PipelineText("${DATA}/train-*.tfrecord", 7, false));
  options_.plan_path = folder_ / "other.pbtxt";
  const auto outcome = Evaluate(2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->metrics.total, kTrainSamples);
}

TEST_F(InferenceTest, AJobWithoutAnEvaluationNeedsAPlan) {
  Train();
  Write(folder_ / "job.pbtxt", "model: \"model.pbtxt\" train: \"train.pbtxt\"\n");
  EXPECT_MESSAGE(Evaluate(), absl::StatusCode::kInvalidArgument);
}

TEST_F(InferenceTest, APlanThatDoesNotFitIsNamed) {
  Train();
  std::string plan = PipelineText("${DATA}/test-*.tfrecord", 5, false);
  Write(folder_ / "eval.pbtxt",
        plan.replace(plan.find("name: \"image\""), 13, "name: \"picture\""));
  EXPECT_MESSAGE(Evaluate(2), absl::StatusCode::kInvalidArgument, "field");
  Write(folder_ / "eval.pbtxt", PipelineText("${DATA}/test-*.tfrecord", 5, true));
  EXPECT_MESSAGE(Evaluate(), absl::StatusCode::kInvalidArgument, "endless");
}

// A line that trains the job also evaluates it; a name that is nowhere is refused.
TEST_F(InferenceTest, VariablesOfTheTrainingPlanAreKnown) {
  Write(folder_ / "train.pbtxt", "# ${BATCH}\n" +
                                     PipelineText("${DATA}/train-*.tfrecord", 8, true) +
                                     "stage { prefetch { batches: ${AHEAD} } }\n");
  adjust_ = [](TrainOptions& options, const collectives::Communicator&) {
    options.variables["AHEAD"] = "2";
  };
  Train();
  options_.variables["AHEAD"] = "2";
  EXPECT_TRUE(Evaluate().ok());
  options_.variables["AHEAP"] = "2";
  EXPECT_MESSAGE(Evaluate(), absl::StatusCode::kInvalidArgument);
}

TEST_F(InferenceTest, RanksWithOtherPlansAreNamed) {
  Train();
  Write(folder_ / "other.pbtxt", PipelineText("${DATA}/test-*.tfrecord", 7, false));
  adjust_inference_ = [&](InferenceOptions& options, const collectives::Communicator& ranks) {
    if (ranks.rank() == 1) options.plan_path = folder_ / "other.pbtxt";
  };
  EXPECT_MESSAGE(Evaluate(2), absl::StatusCode::kInvalidArgument);
}

TEST_F(InferenceTest, ABadLabelOnOneRankEndsAllAndIsReportedOnce) {
  Train();
  WriteShard(folder_ / "test-0.tfrecord", 1000, kTestSamples, 1008);
  std::vector<std::string> reports;
  adjust_inference_ = [&](InferenceOptions& options, const collectives::Communicator&) {
    options.report = [&](const absl::Status& status) {
      const std::lock_guard lock(mu_);
      reports.emplace_back(status.message());
    };
  };
  const auto outcome = Evaluate(3);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(reports, ElementsAre(HasSubstr("test-0.tfrecord: record 8")));
}

}  // namespace
}  // namespace millrace::trainer
