#include "trainer/job_trials.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

class JobTrialsTest : public TrainTest {
 protected:
  std::unique_ptr<JobTrials> OpenTrials() {
    auto trials = TryOpenTrials();
    EXPECT_TRUE(trials.ok()) << trials.status();
    return trials.ok() ? *std::move(trials) : nullptr;
  }
  absl::StatusOr<std::unique_ptr<JobTrials>> TryOpenTrials() {
    JobTrialOptions options;
    options.job_path = folder_ / "job.pbtxt";
    options.variables = {{"DATA", folder_}};
    return JobTrials::Open(options);
  }
  // The samples of a step; -1: the training began again.
  static int64_t SamplesOfStep(JobTrials& trials) {
    const auto samples = trials.Step();
    EXPECT_TRUE(samples.ok()) << samples.status();
    return samples.ok() ? samples->value_or(-1) : 0;
  }
  std::set<std::string> Files() const {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      files.insert(entry.path().lexically_relative(folder_));
    }
    return files;
  }
};

// Nor is the evaluation's data touched, which are no records here.
TEST_F(JobTrialsTest, AWholeTrainingLeavesNothing) {
  Write(folder_ / "test-0.tfrecord", "no records");
  ASSERT_NE(OpenTrials(), nullptr);  // makes the index of the records
  const std::set<std::string> files = Files();
  const auto trials = OpenTrials();
  ASSERT_NE(trials, nullptr);
  for (int step = 0; step < kSteps; ++step) EXPECT_GT(SamplesOfStep(*trials), 0);
  EXPECT_EQ(Files(), files);
}

TEST_F(JobTrialsTest, CheckpointsThatAreThereDoNotMatter) {
  ASSERT_TRUE(Run(1).ok());
  const std::set<std::string> files = Files();
  const auto trials = OpenTrials();
  ASSERT_NE(trials, nullptr);
  EXPECT_EQ(SamplesOfStep(*trials), 8);
  EXPECT_EQ(Files(), files);
}

// An epoch is 8 + 8 + 8 + 8 + 5 samples.
TEST_F(JobTrialsTest, OtherSettingsGoOnBehindTheLastStep) {
  const auto trials = OpenTrials();
  ASSERT_NE(trials, nullptr);
  EXPECT_EQ(trials->settings().threads, 0);
  std::vector<int64_t> samples;
  const std::vector<pipeline::Performance> all = {{.threads = 1},
                                                  {.threads = 3, .prefetch_batches = 5},
                                                  {.memory_budget_mib = 64},
                                                  {.threads = 2, .io_threads = 5, .run_us = 100},
                                                  {.threads = 1, .read_ahead_runs = 4}};
  for (const pipeline::Performance& settings : all) {
    ASSERT_TRUE(trials->Use(settings).ok());
    const pipeline::PipelineProfile profile = trials->pipeline().Profile();
    EXPECT_EQ(profile.workers, settings.threads > 0 ? settings.threads : trials->default_threads());
    EXPECT_EQ(profile.ring == 5, settings.prefetch_batches == 5);
    EXPECT_EQ(trials->context().memory_budget_bytes() >> 20,
              settings.memory_budget_mib > 0 ? settings.memory_budget_mib : 1024);
    samples.push_back(SamplesOfStep(*trials));
  }
  EXPECT_EQ(samples, (std::vector<int64_t>{8, 8, 8, 8, 5}));
}

TEST_F(JobTrialsTest, BehindTheLastStepItBeginsAgainUnderTheSameSettings) {
  WriteJob("checkpoints", "", "epochs: 1");
  const auto trials = OpenTrials();
  ASSERT_NE(trials, nullptr);
  ASSERT_TRUE(trials->Use({.threads = 3}).ok());
  for (int round = 0; round < 2; ++round) {
    for (const int64_t expected : {8, 8, 8, 8, 5, -1}) {
      EXPECT_EQ(SamplesOfStep(*trials), expected);
    }
    EXPECT_EQ(trials->pipeline().Profile().workers, 3);
  }
}

TEST_F(JobTrialsTest, SettingsAreTheJobsElseThePlans) {
  Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", 8, true) +
                                     "performance { threads: 2 memory_budget_mib: 80 run_us: 70 }");
  WriteJob("checkpoints", "", "epochs: 1 memory_budget_mib: 90");
  const auto trials = OpenTrials();
  ASSERT_NE(trials, nullptr);
  EXPECT_EQ(trials->settings(),
            (pipeline::Performance{.threads = 2, .memory_budget_mib = 90, .run_us = 70}));
  EXPECT_EQ(fs::path(trials->plan_path()).filename(), "train.pbtxt");
  const int compute = trials->compute_threads();
  ASSERT_TRUE(trials->Use({.threads = 7}).ok());
  EXPECT_EQ(trials->compute_threads(), compute);
}

TEST_F(JobTrialsTest, ErrorsAreThoseOfATraining) {
  WriteJob("checkpoints", "", "epochs: 1 strategy { mirrored { replicas: 2 } }");
  EXPECT_MESSAGE(TryOpenTrials().status(), absl::StatusCode::kInvalidArgument);
  WriteJob("checkpoints", "", "epochs: 1 strategy { parameter_server {} }");
  EXPECT_MESSAGE(TryOpenTrials().status(), absl::StatusCode::kInvalidArgument);
  fs::remove(folder_ / "job.pbtxt");
  EXPECT_EQ(TryOpenTrials().status().code(), absl::StatusCode::kNotFound);
}

TEST(EditJobTextTest, OnlyPerformanceChanges) {
  const std::vector<pipeline::FieldChange> changes = {{"pipeline_threads", 2, "was 1"}};
  const auto edited = EditJobText("# My job.\nmodel: \"m\" train: \"t\"\n", {}, changes);
  ASSERT_TRUE(edited.ok()) << edited.status();
  EXPECT_EQ(edited->text, "# My job.\nmodel: \"m\" train: \"t\"\npipeline_threads: 2  # was 1\n");
  EXPECT_MESSAGE(
      EditJobText("seed: 1", {}, std::vector<pipeline::FieldChange>{{"seed", 2, ""}}).status(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::trainer
