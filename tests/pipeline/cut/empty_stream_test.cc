#include <gmock/gmock.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/context.h"
#include "pipeline/pipeline.h"

// S-CUT-18: an endless input that nothing passes ends with an error, not with silence.

namespace millrace::pipeline {
namespace {

using testing::HasSubstr;

std::unique_ptr<Pipeline> OpenText(const std::string& stages, int lanes, int rank = 0,
                                   int world = 1) {
  const auto plan = Plan::FromText(absl::StrCat("lanes: ", lanes, "\n", stages), "plan");
  EXPECT_TRUE(plan.ok()) << plan.status();
  ContextOptions context_options;
  context_options.threads = 4;
  auto context = MakeContext(std::move(context_options));
  EXPECT_TRUE(context.ok()) << context.status();
  OpenOptions options;
  options.rank = rank;
  options.world = world;
  auto pipeline = Pipeline::Open(*plan, *context, options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

std::string Endless(int count, const std::string& predicate, const std::string& between = "",
                    int batch = 8) {
  return absl::StrCat("stage { range { count: ", count, " } }\n", between,
                      "stage { repeat { epochs: 0 } }\n", "stage { filter { predicate: \"",
                      predicate, "\" } }\n", "stage { batch { size: ", batch, " } }\n");
}

void ExpectEmpty(Pipeline& pipeline, const std::string& why) {
  for (int i = 0; i < 2; ++i) {
    const auto batch = pipeline.Next();
    EXPECT_EQ(batch.status().code(), absl::StatusCode::kFailedPrecondition) << batch.status();
    EXPECT_THAT(std::string(batch.status().message()), HasSubstr(why));
  }
}

void ExpectBatches(Pipeline& pipeline, int count) {
  for (int i = 0; i < count; ++i) {
    const auto batch = pipeline.Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_TRUE(batch->has_value());
  }
}

constexpr char kShuffle[] = "stage { global_shuffle {} }\n";

TEST(EmptyStreamTest, AFilterThatDropsAllOfAnEndlessInputIsAnError) {
  for (const int count : {1, 100, 5000}) {
    for (const int lanes : {1, 8}) {
      ExpectEmpty(*OpenText(Endless(count, "value < 0"), lanes), "repeats itself without end");
      ExpectEmpty(*OpenText(Endless(count, "value < 0", kShuffle), lanes),
                  absl::StrCat("none of its ", count, " records"));
    }
  }
}

TEST(EmptyStreamTest, EveryRankOfAWorldIsTold) {
  for (const int rank : {0, 1}) {
    ExpectEmpty(*OpenText(Endless(96, "value < 0"), 8, rank, 2), "repeats itself");
    ExpectEmpty(*OpenText(Endless(96, "value < 0", kShuffle), 8, rank, 2), "none of its 96");
  }
}

// Of eight records dealt to eight lanes in order, lane 3 sees the fourth and nothing else.
TEST(EmptyStreamTest, ALaneThatNeverGetsARowIsAnError) {
  ExpectEmpty(*OpenText(Endless(8, "value == 3"), 8), "in lane");
}

TEST(EmptyStreamTest, WhatATakeLeavesIsLookedAtAlone) {
  ExpectEmpty(*OpenText(Endless(1000, "value >= 10", "stage { take { count: 10 } }\n"), 1),
              "repeats itself");
}

// Whoever examines them: at any rank, in any order, with rounds shorter and longer than a run.
TEST(EmptyStreamTest, OneRecordThatPassesIsEnough) {
  for (const int rank : {0, 1, 7}) {
    ExpectBatches(*OpenText(Endless(500, "value == 77", kShuffle), 8, rank, 8), 5);
    ExpectBatches(*OpenText(Endless(501, "value == 77"), 8, rank, 8), 5);
    const auto some = absl::StrCat(kShuffle, "stage { take { count: 20 } }\n");
    ExpectBatches(*OpenText(Endless(500, "value < 3", some), 8, rank, 8), 5);
  }
  for (const int count : {3, 7, 128}) {
    const auto last = absl::StrCat("value == ", count - 1);
    ExpectBatches(*OpenText(Endless(count, last, "", 1024), 1), 3);
    ExpectBatches(*OpenText(Endless(count, last, kShuffle, 1024), 8), 3);
  }
}

// The take is used up by rows that the filter behind it drops: an end, not an error.
TEST(EmptyStreamTest, ATakeBehindAFilterEndsTheStream) {
  const auto pipeline = OpenText(
      "stage { range { count: 100 } } stage { repeat { epochs: 0 } }\n"
      "stage { filter { predicate: \"value < 50\" } } stage { take { count: 80 } }\n"
      "stage { filter { predicate: \"value > 60\" } } stage { batch { size: 8 } }\n",
      1);
  const auto batch = pipeline->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_FALSE(batch->has_value());
}

TEST(EmptyStreamTest, InputsTooLongToComeRoundAreNoError) {
  const auto pipeline = OpenText(
      "stage { range { count: 288230376151711744 } } stage { repeat { epochs: 0 } }\n"
      "stage { filter { predicate: \"value >= 100000\" } } stage { batch { size: 8 } }\n",
      8);
  ExpectBatches(*pipeline, 1);
}

}  // namespace
}  // namespace millrace::pipeline
