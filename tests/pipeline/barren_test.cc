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

std::string Endless(int count, const std::string& predicate, const std::string& between = "") {
  return absl::StrCat("stage { range { count: ", count, " } }\n", between,
                      "stage { repeat { epochs: 0 } }\n", "stage { filter { predicate: \"",
                      predicate, "\" } }\n", "stage { batch { size: 8 } }\n");
}

void ExpectBarren(Pipeline& pipeline) {
  for (int i = 0; i < 2; ++i) {
    const auto batch = pipeline.Next();
    EXPECT_EQ(batch.status().code(), absl::StatusCode::kFailedPrecondition) << batch.status();
    EXPECT_THAT(std::string(batch.status().message()), HasSubstr("epoch after epoch"));
  }
}

TEST(BarrenTest, AFilterThatDropsAllOfAnEndlessInputIsAnError) {
  for (const int count : {1, 100, 5000}) {
    for (const int lanes : {1, 8}) {
      ExpectBarren(*OpenText(Endless(count, "value < 0"), lanes));
      ExpectBarren(*OpenText(Endless(count, "value < 0", "stage { global_shuffle {} }\n"), lanes));
    }
  }
}

TEST(BarrenTest, EveryRankOfAWorldIsTold) {
  for (const int rank : {0, 1}) ExpectBarren(*OpenText(Endless(100, "value < 0"), 8, rank, 2));
}

// Of eight records dealt to eight lanes in order, lane 3 sees the fourth and nothing else.
TEST(BarrenTest, ALaneThatNeverGetsARowIsAnError) {
  ExpectBarren(*OpenText(Endless(8, "value == 3"), 8));
}

TEST(BarrenTest, OneRecordThatPassesIsEnough) {
  const auto shuffled = "stage { global_shuffle {} }\n";
  for (const int lanes : {1, 8}) {
    const auto pipeline = OpenText(Endless(500, "value == 77", shuffled), lanes);
    for (int i = 0; i < 5; ++i) {
      const auto batch = pipeline->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      ASSERT_TRUE(batch->has_value());
      for (int row = 0; row < 8; ++row) EXPECT_EQ((*batch)->ids()[row].record, 77u);
    }
  }
}

}  // namespace
}  // namespace millrace::pipeline
