#include "trainer/job/job.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "collectives/stragglers.h"
#include "tests/messages.h"
#include "tests/temp_folder.h"
#include "trainer/report.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<JobFile> LoadFrom(const TempFolder& folder, const std::string& text) {
  const std::string path = folder / "job.pbtxt";
  std::ofstream(path) << text;
  std::set<std::string> used;
  return LoadJob(path, {{"HERE", "there"}}, used);
}

absl::StatusOr<JobFile> Load(const std::string& text) { return LoadFrom(TempFolder(), text); }

TEST(JobTest, DefaultsAreFilledInAndPathsAreRelativeToTheJob) {
  const TempFolder folder;
  const auto job = LoadFrom(folder, R"(model: "m.pbtxt" train: "/abs/t.pbtxt"
                           checkpoint { folder: "${HERE}/checkpoints" })");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->model_path, folder / "m.pbtxt");
  EXPECT_EQ(job->train_path, "/abs/t.pbtxt");
  EXPECT_EQ(job->eval_path, "");
  EXPECT_THAT(job->checkpoint_folder, HasSubstr("/there/checkpoints"));
  EXPECT_EQ(job->job.log_every_steps(), 20u);
  EXPECT_EQ(job->job.checkpoint().keep(), 3u);
  EXPECT_EQ(job->job.checkpoint().every_epochs(), 1u);
}

TEST(JobTest, WhatIsMissingIsNamed) {
  EXPECT_MESSAGE(Load("train: \"t\"").status(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(Load("model: \"m\"").status(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(
      Load("model: \"m\" train: \"t\" checkpoint { folder: \"c\" keep_best: 1 }").status(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(Load("model: \"m\" train: \"t\" init_from {}").status(),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(Load("model: \"m\" train: \"t\" precision: \"half\"").status(),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Load("model: 3").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Load("model: \"m\" train: \"t\" pipeline_threads: 100000").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(JobTest, MirroredNeedsANumberOfReplicas) {
  const auto load = [](const std::string& mirrored) {
    return Load("model: \"m\" train: \"t\" strategy { mirrored { " + mirrored + " } }");
  };
  EXPECT_MESSAGE(load("").status(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(load("replicas: 1025").status(), absl::StatusCode::kInvalidArgument);
  const auto job = load("replicas: 2");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->job.strategy().mirrored().replicas(), 2u);
  EXPECT_EQ(job->weights_text, load("replicas: 3")->weights_text)
      << "a checkpoint continues with any number of them";
}

TEST(JobTest, AWrongFieldNamesItsPlace) {
  for (const char* const text :
       {"init_from {\n except: \"a\" }", "pipeline_threads: 100000",
        "memory_budget_mib: 4294967295", "steps_per_epoch: 18446744073709551615",
        "checkpoint { folder: \"\"\n keep: 4294967295 }",
        "checkpoint { folder: \"\" keep_best: 4294967295 }",
        "checkpoint { folder: \"\"\n  keep_best: 1 }", "reduction {\n clip_norm: -1 }",
        "reduction { exact: true\n shard_optimizer: true }", "reduction { wire_dtype: \"int8\" }",
        "checkpoint {}", "checkpoint { every_steps: 3 }", "reduction {\n accumulate_steps: 0 }"}) {
    EXPECT_MESSAGE(Load(absl::StrCat("model: \"m\" train: \"t\"\n", text)).status(),
                   absl::StatusCode::kInvalidArgument);
  }
}

TEST(JobTest, ScalesOfTheLossArePowersOfTwoAndStepsAreSkipped) {
  const auto load = [](const std::string& fields) {
    return Load(absl::StrCat("model: \"m\" train: \"t\" ", fields));
  };
  const auto refused = [&](const std::string& fields) {
    return std::string(load(fields).status().message());
  };
  EXPECT_THAT(refused("loss_scaling {}"), HasSubstr("loss_scaling: it is either"));
  EXPECT_THAT(refused("loss_scaling {\n static: 1000 }"),
              HasSubstr(":2:2: loss_scaling.static: 1000 is no power of two from 1 to 2^24"));
  EXPECT_THAT(refused("loss_scaling { dynamic { backoff_factor: 1 } }"),
              HasSubstr("loss_scaling.dynamic.backoff_factor: 1 is no power of two below 1"));
  EXPECT_THAT(refused("loss_scaling { dynamic {} } reduction { stale_steps: 1 }"),
              HasSubstr("does not go with reduction.stale_steps"));
  EXPECT_THAT(refused("loss_scaling { static: 2 } strategy { parameter_server {} }"),
              HasSubstr("does not go with strategy.parameter_server"));
  const auto job =
      load("loss_scaling { dynamic { growth_interval: 9 } } reduction { max_skipped_steps: 5 }");
  ASSERT_TRUE(job.ok()) << job.status();
  const DynamicLossScale& dynamic = job->job.loss_scaling().dynamic();
  EXPECT_EQ(dynamic.init_scale(), 65536);
  EXPECT_EQ(dynamic.growth_interval(), 9u);
  EXPECT_TRUE(job->job.reduction().skip_non_finite());
}

TEST(JobTest, FieldsBesideTheFileAreBlamedForWhatTheyCause) {
  const TempFolder folder;
  const std::string path = folder / "job.pbtxt";
  const auto error = [&path](const std::string& reduction, const FieldValue& field) {
    std::ofstream(path) << "model: \"m\" train: \"t\" reduction { " << reduction << " }";
    std::set<std::string> used;
    return LoadJob(path, {}, used, {&field, 1}).status();
  };
  EXPECT_MESSAGE(error("wire_dtype: \"float16\"", {"exact", "true"}),
                 absl::StatusCode::kInvalidArgument, "beside");
  EXPECT_MESSAGE(error("synchronous_tail: 3", {"exact", "true"}),
                 absl::StatusCode::kInvalidArgument, "own");
  EXPECT_TRUE(error("exact: true wire_dtype: \"float16\"", {"exact", "false"}).ok());
}

TEST(JobTest, FieldsThatDoNotGoWithServersAreRefused) {
  const auto refused = [](const std::string& fields) {
    return std::string(Load(absl::StrCat("model: \"m\" train: \"t\" ", fields)).status().message());
  };
  const std::string servers = "strategy { parameter_server { servers: 2 ";
  EXPECT_THAT(refused(servers + "max_staleness: 1 synchronous: true } }"),
              HasSubstr(":1:64: strategy.parameter_server.max_staleness: it does not go with"));
  EXPECT_THAT(refused(servers + "backup_workers: 1 } }"),
              HasSubstr("strategy.parameter_server.backup_workers: it needs synchronous"));
  EXPECT_THAT(refused("strategy { parameter_server { servers: 1025 } }"), HasSubstr("over 1024"));
  for (const char* const field :
       {"accumulate_steps: 2", "clip_norm: 1", "skip_non_finite: true", "wire_dtype: \"bfloat16\"",
        "shard_optimizer: true", "stale_steps: 1", "digest_every: 5"}) {
    EXPECT_THAT(refused(absl::StrCat(servers, "} } reduction { ", field, " }")),
                HasSubstr("does not go with strategy.parameter_server"));
  }
}

TEST(JobTest, ServersOfOneUpdateForAllWorkersChangeNoWeight) {
  const std::string files = "model: \"m\" train: \"t\" ";
  const auto plain = Load(files);
  const auto synchronous =
      Load(files + "strategy { parameter_server { servers: 3 synchronous: true } }");
  const auto one = Load(files + "strategy { parameter_server { max_staleness: 3 } }");
  const auto two = Load(files + "strategy { parameter_server { servers: 2 max_staleness: 3 } }");
  ASSERT_TRUE(plain.ok() && synchronous.ok() && one.ok() && two.ok());
  EXPECT_EQ(synchronous->weights_text, plain->weights_text);
  EXPECT_EQ(one->weights_text, two->weights_text);
  EXPECT_NE(one->weights_text, plain->weights_text);
}

TEST(JobTest, ThreadsAndMemoryOfPipelinesAreThoseOfTheJobThenOfThePlan) {
  Job job;
  FillFromPlan({}, job);
  EXPECT_EQ(job.pipeline_threads(), 0u);  // by the cores
  EXPECT_EQ(job.memory_budget_mib(), 1024u);
  Job of_plan;
  FillFromPlan({.threads = 3, .memory_budget_mib = 64}, of_plan);
  EXPECT_EQ(of_plan.pipeline_threads(), 3u);
  EXPECT_EQ(of_plan.memory_budget_mib(), 64u);
  FillFromPlan({.threads = 5, .memory_budget_mib = 7}, of_plan);
  EXPECT_EQ(of_plan.pipeline_threads(), 3u);
  EXPECT_EQ(of_plan.memory_budget_mib(), 64u);
}

TEST(JobTest, CoresAreSplitAmongRanksComputeAndPipeline) {
  const auto split = [](int usable, int ranks, int threads, int pipeline) {
    const CoreSplit cores = SplitCores(usable, ranks, threads, pipeline);
    return std::vector<int>{cores.per_rank, cores.compute, cores.pipeline, cores.pipeline_most};
  };
  EXPECT_EQ(split(2, 2, 0, 0), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(split(2, 1, 0, 0), (std::vector<int>{2, 2, 1, 1}));
  EXPECT_EQ(split(16, 1, 0, 0), (std::vector<int>{16, 12, 4, 4}));
  EXPECT_EQ(split(16, 4, 0, 0), (std::vector<int>{4, 3, 1, 1}));
  EXPECT_EQ(split(1, 8, 0, 0), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(split(16, 1, 8, 6), (std::vector<int>{8, 6, 2, 6}));
  EXPECT_EQ(split(16, 1, 4, 9), (std::vector<int>{4, 3, 1, 9}));
  EXPECT_EQ(SplitCores(16, 1, 0, 0).PipelineText(), "4");
  EXPECT_EQ(SplitCores(16, 1, 0, 16).PipelineText(), "4 to 16");
  EXPECT_EQ(SplitCores(16, 1, 0, 4).PipelineText(), "4");
  EXPECT_EQ(SplitCores(16, 1, 0, 2).PipelineText(), "2");
}

TEST(JobTest, APipelineWithoutANumberOfThreadsMayGrowToAllCoresOfItsRank) {
  const auto split = [](int usable, int ranks, int pipeline) {
    const CoreSplit cores = SplitCoresToGrow(SplitCores(usable, ranks, 0, pipeline), pipeline);
    return std::vector<int>{cores.compute, cores.pipeline_first, cores.pipeline_most, cores.io};
  };
  EXPECT_EQ(split(1, 1, 0), (std::vector<int>{1, 1, 1, 4}));
  EXPECT_EQ(split(2, 1, 0), (std::vector<int>{2, 1, 2, 4}));
  EXPECT_EQ(split(16, 1, 0), (std::vector<int>{12, 4, 16, 8}));
  EXPECT_EQ(split(16, 4, 0), (std::vector<int>{3, 1, 4, 4}));
  EXPECT_EQ(split(16, 1, 6), (std::vector<int>{12, 6, 6, 12}));
  EXPECT_EQ(split(2, 1, 1), (std::vector<int>{2, 1, 1, 4}));
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
            "(1.3%)  lr 0.05");
  line.straggler = collectives::Straggler{3, 0.041, 0.21}.ToString();
  EXPECT_TRUE(
      FormatStep(line).ends_with("lr 0.05  rank 3 is awaited: median 41.0 ms, max 210.0 ms"));
  line.learning_rate = 1.234567e-5;
  EXPECT_THAT(FormatStep(line), HasSubstr("  lr 1.235e-05  "));
  const StepTimes all = {940, 240000, 23.4, 0};
  EXPECT_EQ(FormatTotal(all, {939, 239744, 23.365, 0}),
            "total: 940 steps, 240000 samples in 23.4 s of training; 10261 img/s without the first "
            "step");
  EXPECT_EQ(FormatTotal({1, 256, 0.5, 0}, {}), "total: 1 steps, 256 samples in 0.5 s of training");
  EvaluationLine evaluation = {2, 9012, 10000, 0.28014, {}, {}, {}};
  EXPECT_EQ(FormatEvaluation(evaluation),
            "epoch 2: test accuracy 0.9012 (9012/10000), loss 0.2801");
  evaluation.in_top5 = 9950;
  EXPECT_EQ(FormatEvaluation(evaluation),
            "epoch 2: test accuracy 0.9012 (9012/10000), top-5 0.9950, loss 0.2801");
  EXPECT_EQ(FormatEvaluation({2, 0, 10000, 0.0301, {}, 0.125, {}}),
            "epoch 2: test error 0.1250 (mean absolute), loss 0.0301");
  EXPECT_EQ(FormatTable({{"a", "1"}, {"long", "2"}}),
            (std::vector<std::string>{"a     1", "long  2"}));
}

TEST(ReportTest, ReductionsAreSaidPerStepInAllAndPerBucket) {
  collectives::ReducerCounters counters;
  counters.steps = 2;
  counters.buckets = {{2 << 20, 0.001, 0.0002}, {50 << 20, 0.02, 0.0123}};
  EXPECT_EQ(
      FormatReduction(counters, 0.0312),
      (std::vector<std::string>{
          "reduction: 2 buckets, 26.0 MiB a step, 10.50 ms of work, 6.25 ms exposed (3.1% of step "
          "time on the rank that waited most)",
          "  bucket 0: 1.0 MiB a step, 0.50 ms of work, 0.10 ms exposed",
          "  bucket 1: 25.0 MiB a step, 10.00 ms of work, 6.15 ms exposed"}));
  counters.gather_seconds = 0.0008;
  EXPECT_EQ(FormatReduction(counters, 0)[1], "  gathering shards: 0.40 ms");
  counters.gather_seconds = 0;
  counters.buckets.resize(20);
  EXPECT_EQ(FormatReduction(counters, 0).size(), 18u);
  EXPECT_EQ(FormatReduction(counters, 0).back(), "  and 4 buckets more");
  EXPECT_EQ(FormatReduction({}, 0).size(), 1u);
}

TEST(ReportTest, ANormThatIsNoNumberIsNotHidden) {
  GradientNorms norms;
  for (const double norm : {1.0, std::nan(""), 2.0}) norms.Add(false, norm, 1);
  EXPECT_TRUE(std::isnan(norms.largest)) << norms.largest;
  norms = {};
  for (const double norm : {1.0, 3.0, 2.0}) norms.Add(false, norm, 1);
  EXPECT_EQ(norms.largest, 3);
}

TEST(ReportTest, ATrainingWithoutStepsHasNotWaited) { EXPECT_EQ(StepTimes().wait_fraction(), 0); }

}  // namespace
}  // namespace millrace::trainer
