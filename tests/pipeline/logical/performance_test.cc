#include "pipeline/performance.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/edit_plan.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"

namespace millrace::pipeline {
namespace {

bool IsPerformance(const google::protobuf::FieldDescriptor* field) {
  return field != nullptr && field->options().GetExtension(proto::performance);
}

// S-FINGERPRINT-1: by construction no field of the block, and none that `tune` may change, counts.
TEST(PerformanceTest, EveryFieldIsOutsideTheFingerprint) {
  EXPECT_TRUE(IsPerformance(proto::Pipeline::descriptor()->FindFieldByName("performance")));
  EXPECT_TRUE(IsPerformance(proto::Stage::descriptor()->FindFieldByName("prefetch")));
  EXPECT_TRUE(IsPerformance(proto::Prefetch::descriptor()->FindFieldByName("batches")));
  const uint64_t plain = Make(std::string(kSource) + kBatch).Fingerprint();
  for (const std::string& name : PerformanceFields()) {
    const std::string block = name == kPrefetchField
                                  ? "stage { prefetch { batches: 3 } }"
                                  : absl::StrCat("performance { ", name, ": 3 }");
    const Plan plan = Make(absl::StrCat(kSource, kBatch, block));
    EXPECT_EQ(plan.Fingerprint(), plain) << name;
    EXPECT_NE(PerformanceOf(plan), Performance()) << name;
    EXPECT_NE(plan.ToText(), Make(std::string(kSource) + kBatch).ToText()) << name;
    if (name == kPrefetchField) continue;
    EXPECT_TRUE(IsPerformance(proto::Performance::descriptor()->FindFieldByName(name))) << name;
  }
}

TEST(PerformanceTest, OptionsComeBeforeThePlan) {
  const Plan plan = Make(absl::StrCat(kSource, kBatch,
                                      "stage { prefetch { batches: 9 } } performance { threads: 3 "
                                      "memory_budget_mib: 64 io_threads: 5 read_ahead_runs: 7 "
                                      "run_us: 80 }"));
  EXPECT_EQ(PerformanceOf(plan), (Performance{.threads = 3,
                                              .memory_budget_mib = 64,
                                              .io_threads = 5,
                                              .read_ahead_runs = 7,
                                              .run_us = 80,
                                              .prefetch_batches = 9}));
  const ContextOptions context = WithPerformanceOf(plan, ContextOptions());
  EXPECT_EQ(context.threads, 3);
  EXPECT_EQ(context.memory_budget_bytes, int64_t{64} << 20);
  EXPECT_EQ(context.io_threads, 5);
  const OpenOptions open = WithPerformanceOf(plan, OpenOptions());
  EXPECT_EQ(open.cpu_budget, 3);
  EXPECT_EQ(open.read_ahead_runs, 7);
  EXPECT_EQ(open.run_us, 80);
  EXPECT_EQ(open.prefetch_batches, 9);

  ContextOptions own_context;
  own_context.threads = 1;
  own_context.memory_budget_bytes = 12345;
  own_context.io_threads = 2;
  own_context = WithPerformanceOf(plan, own_context);
  EXPECT_EQ(own_context.threads, 1);
  EXPECT_EQ(own_context.memory_budget_bytes, 12345);
  EXPECT_EQ(own_context.io_threads, 2);
  OpenOptions own_open;
  own_open.cpu_budget = 1;
  own_open.read_ahead_runs = 1;
  own_open.run_us = 1;
  own_open.prefetch_batches = 1;
  own_open = WithPerformanceOf(plan, own_open);
  EXPECT_EQ(own_open.cpu_budget, 1);
  EXPECT_EQ(own_open.read_ahead_runs, 1);
  EXPECT_EQ(own_open.run_us, 1);
  EXPECT_EQ(own_open.prefetch_batches, 1);
}

TEST(PerformanceTest, WhatIsOutOfRangeIsRefusedAtItsPlace) {
  const std::string stages = std::string(kSource) + kBatch;
  for (const char* const field : {"threads: 4097", "memory_budget_mib: 16777217",
                                  "io_threads: 1025", "read_ahead_runs: 65537", "run_us: 100001"}) {
    EXPECT_MESSAGE(ErrorOf(absl::StrCat(stages, "performance { ", field, " }")));
  }
  EXPECT_MESSAGE(ErrorOf(stages + "performance { thread: 2 }"));
  EXPECT_MESSAGE(ErrorOf(absl::StrCat("stage { concatenate { input { performance { threads: 2 } ",
                                      kSource, "} } }", kBatch)));
}

}  // namespace
}  // namespace millrace::pipeline
