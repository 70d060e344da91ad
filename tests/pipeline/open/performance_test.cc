#include "pipeline/performance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/digest.h"
#include "pipeline/pipeline.h"

namespace millrace::pipeline {
namespace {

Plan PlanWith(const std::string& performance) {
  auto plan = Plan::FromText(
      absl::StrCat("lanes: 4 stage { range { count: 5000 } } stage { global_shuffle {} }\n"
                   "stage { filter { predicate: \"value >= 200\" } }\n"
                   "stage { batch { size: 64 } }\n",
                   performance),
      "p");
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// The digest and the token of every batch.
std::vector<std::string> StreamOf(const Plan& plan) {
  std::vector<std::string> stream;
  const auto context = MakeContext(plan);
  EXPECT_TRUE(context.ok()) << context.status();
  const auto pipeline = Pipeline::Open(plan, *context);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  while (pipeline.ok()) {
    const auto batch = (*pipeline)->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) break;
    StreamDigest digest;
    digest.Add(**batch);
    stream.push_back(absl::StrCat(digest.value(), " ", (*batch)->resume_token()));
  }
  return stream;
}

TEST(PerformanceOpenTest, NoFieldChangesABatchOrAToken) {
  const std::vector<std::string> plain = StreamOf(PlanWith(""));
  ASSERT_GE(plain.size(), 75u);
  for (const char* const field :
       {"threads: 1", "threads: 5", "memory_budget_mib: 1", "io_threads: 1", "read_ahead_runs: 1",
        "read_ahead_runs: 65536", "run_us: 1", "run_us: 100000"}) {
    EXPECT_EQ(StreamOf(PlanWith(absl::StrCat("performance { ", field, " }"))), plain) << field;
  }
  EXPECT_EQ(StreamOf(PlanWith("stage { prefetch { batches: 7 } }")), plain);
}

TEST(PerformanceOpenTest, AContextIsMadeAsThePlanSays) {
  const Plan plan = PlanWith("performance { threads: 3 memory_budget_mib: 5 }");
  const auto made = MakeContext(plan);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->workers().num_threads(), 3);
  EXPECT_EQ((*made)->memory_budget_bytes(), 5 << 20);
  ContextOptions own;
  own.threads = 2;
  const auto other = MakeContext(plan, own);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ((*other)->workers().num_threads(), 2);
}

// The metric tells how many workers a pipeline may use.
TEST(PerformanceOpenTest, ThePlanLimitsWorkersOfASharedContext) {
  ContextOptions options;
  options.threads = 4;
  const auto context = MakeContext(options);
  ASSERT_TRUE(context.ok());
  const auto threads = [&](const std::string& performance, int cpu_budget) {
    OpenOptions open;
    open.cpu_budget = cpu_budget;
    open.adapt = false;
    const auto pipeline = Pipeline::Open(PlanWith(performance), *context, open);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return (*context)->metrics().Snapshot().at("millrace_worker_target");
  };
  EXPECT_EQ(threads("", 0), 4);
  EXPECT_EQ(threads("performance { threads: 3 }", 0), 3);
  EXPECT_EQ(threads("performance { threads: 3 }", 2), 2);
}

TEST(PerformanceOpenTest, OptionsOutOfRangeAreRefused) {
  OpenOptions options;
  options.run_us = 100'001;
  EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument);
  options.run_us = 0;
  options.read_ahead_runs = -1;
  EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::pipeline
