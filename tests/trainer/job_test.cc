#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "trainer/job_internal.h"
#include "trainer/report.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<JobFile> Load(const std::string& text) {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = ::testing::TempDir() + "/job_test_" + info->name() + ".pbtxt";
  std::ofstream(path) << text;
  std::set<std::string> used;
  return LoadJob(path, {{"HERE", "there"}}, used);
}

TEST(JobTest, DefaultsAreFilledInAndPathsAreRelativeToTheJob) {
  const auto job = Load(R"(model: "m.pbtxt" train: "/abs/t.pbtxt"
                           checkpoint { folder: "${HERE}/checkpoints" })");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->model_path, std::filesystem::path(::testing::TempDir()) / "m.pbtxt");
  EXPECT_EQ(job->train_path, "/abs/t.pbtxt");
  EXPECT_EQ(job->eval_path, "");
  EXPECT_THAT(job->checkpoint_folder, HasSubstr("/there/checkpoints"));
  EXPECT_EQ(job->job.log_every_steps(), 20u);
  EXPECT_EQ(job->job.checkpoint().keep(), 3u);
  EXPECT_EQ(job->job.checkpoint().every_epochs(), 1u);
}

TEST(JobTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(std::string(Load("train: \"t\"").status().message()), HasSubstr("model: no file"));
  EXPECT_THAT(std::string(Load("model: \"m\"").status().message()), HasSubstr("train: no file"));
  EXPECT_EQ(Load("model: 3").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Load("model: \"m\" train: \"t\" pipeline_threads: 100000").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(JobTest, CoresAreSplitAmongRanksComputeAndPipeline) {
  const auto split = [](int usable, int ranks, int threads, int pipeline) {
    const CoreSplit cores = SplitCores(usable, ranks, threads, pipeline);
    return std::vector<int>{cores.per_rank, cores.compute, cores.pipeline};
  };
  EXPECT_EQ(split(2, 2, 0, 0), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(split(2, 1, 0, 0), (std::vector<int>{2, 2, 1}));
  EXPECT_EQ(split(16, 1, 0, 0), (std::vector<int>{16, 12, 4}));
  EXPECT_EQ(split(16, 4, 0, 0), (std::vector<int>{4, 3, 1}));
  EXPECT_EQ(split(1, 8, 0, 0), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(split(16, 1, 8, 6), (std::vector<int>{8, 2, 6}));
  EXPECT_EQ(split(16, 1, 4, 9), (std::vector<int>{4, 1, 9}));
}

TEST(ReportTest, LinesReadAsDocumented) {
  StepLine line;
  line.step = 120;
  line.total_steps = 940;
  line.epoch = 120 / 235.0;
  line.loss = 0.43121;
  line.learning_rate = 0.05;
  line.times.Add(256, 0.0315, 0.0004);
  EXPECT_EQ(FormatStep(line),
            "step 120/940  epoch 0.51  loss 0.4312  8127 img/s  step 31.5 ms  data wait 0.4 ms "
            "(1.3%)  lr 0.0500");
  EXPECT_EQ(FormatEvaluation(2, 9012, 10000, 0.28014),
            "epoch 2: test accuracy 0.9012 (9012/10000), loss 0.2801");
  EXPECT_EQ(FormatTable({{"a", "1"}, {"long", "2"}}),
            (std::vector<std::string>{"a     1", "long  2"}));
}

TEST(ReportTest, VerdictFollowsTheShare) {
  EXPECT_EQ(InputVerdict(0.0499), "NOT input-bound");
  EXPECT_EQ(InputVerdict(0.05), "MODERATELY input-bound");
  EXPECT_EQ(InputVerdict(0.20), "HIGHLY input-bound");
  EXPECT_EQ(StepTimes().wait_share(), 0);
}

}  // namespace
}  // namespace millrace::trainer
