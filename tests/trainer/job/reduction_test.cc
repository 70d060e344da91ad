#include "trainer/job/reduction.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "tests/messages.h"
#include "trainer/strategy/reducer_options.h"

namespace millrace::trainer {
namespace {

Reduction Parse(const std::string& text) {
  Reduction reduction;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &reduction));
  return reduction;
}

TEST(ReductionTest, DefaultsAreThoseOfTheReducer) {
  Reduction reduction;
  FillDefaults(reduction);
  const collectives::ReducerOptions options = ReducerOptionsOf(reduction);
  const collectives::ReducerOptions expected;
  EXPECT_EQ(options.bucket_bytes, expected.bucket_bytes);
  EXPECT_EQ(options.edge_bucket_bytes, expected.edge_bucket_bytes);
  EXPECT_EQ(options.micro_batches, 1);
  EXPECT_EQ(options.wire, DType::kF32);
  EXPECT_EQ(options.policy, collectives::ProgressPolicy::kAuto);
  EXPECT_TRUE(options.average_by_rows);
  EXPECT_EQ(Describe(reduction), "averaged over valid rows");
}

TEST(ReductionTest, EachFieldReachesTheReducer) {
  Reduction reduction = Parse(
      "accumulate_steps: 4 clip_norm: 1.5 skip_non_finite: true wire_dtype: \"bfloat16\" "
      "shard_optimizer: true bucket_bytes: 5000 progress_policy: \"thread\"");
  ASSERT_FALSE(CheckReduction(reduction).has_value());
  FillDefaults(reduction);
  const collectives::ReducerOptions options = ReducerOptionsOf(reduction);
  EXPECT_EQ(options.micro_batches, 4);
  EXPECT_EQ(options.clip_norm, 1.5);
  EXPECT_TRUE(options.skip_non_finite);
  EXPECT_EQ(options.wire, DType::kBF16);
  EXPECT_TRUE(options.shard);
  EXPECT_EQ(options.bucket_bytes, 5000u);
  EXPECT_EQ(options.edge_bucket_bytes, 5000u) << "no larger than the others";
  EXPECT_EQ(options.policy, collectives::ProgressPolicy::kThread);
  EXPECT_FALSE(options.exact);
  EXPECT_TRUE(ReducerOptionsOf(Parse("exact: true")).exact);
}

TEST(ReductionTest, LateSumsEndBeforeTheTail) {
  Reduction reduction = Parse("stale_steps: 2");
  FillDefaults(reduction);
  EXPECT_EQ(StaleOptionsOf(reduction, 10).delay, 2);
  EXPECT_EQ(StaleOptionsOf(reduction, 10).pipelined_steps, 9) << "the last step waits for all";
  reduction.set_synchronous_tail(30);
  EXPECT_EQ(StaleOptionsOf(reduction, 10).pipelined_steps, 0);
}

TEST(ReductionTest, WhatDoesNotGoTogetherNamesTheField) {
  for (const char* const text :
       {"clip_norm: -1", "clip_norm: nan", "accumulate_steps: 4294967295",
        "wire_dtype: \"float64\"", "progress_policy: \"gpu\"", "stale_steps: 17",
        "bucket_bytes: 18446744073709551615", "max_skipped_steps: 3",
        "exact: true wire_dtype: \"float16\"", "exact: true shard_optimizer: true",
        "synchronous_tail: 3", "stale_steps: 1 accumulate_steps: 2",
        "stale_steps: 1 shard_optimizer: true"}) {
    const auto bad = CheckReduction(Parse(text));
    ASSERT_TRUE(bad.has_value()) << text;
    EXPECT_MESSAGE(bad->name() + ": " + bad->why);
  }
}

TEST(ReductionTest, FieldsOfTheCommandLineGoBeforeTheFiles) {
  Reduction reduction = Parse("clip_norm: 1 wire_dtype: \"float16\"");
  ASSERT_TRUE(SetField({"clip_norm", "2.5"}, reduction).ok());
  ASSERT_TRUE(SetField({"wire_dtype", "bfloat16"}, reduction).ok());
  ASSERT_TRUE(SetField({"exact", "true"}, reduction).ok());
  EXPECT_EQ(reduction.clip_norm(), 2.5);
  EXPECT_EQ(reduction.wire_dtype(), "bfloat16");
  EXPECT_TRUE(reduction.exact());
  EXPECT_MESSAGE(SetField({"clip_norm", "much"}, reduction), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(SetField({"clip", "1"}, reduction).ok());
}

TEST(ReductionTest, WeightsDependOnNothingThatIsLeftOut) {
  Reduction plain;
  FillDefaults(plain);
  KeepWhatWeightsDependOn(plain);
  EXPECT_EQ(plain.ByteSizeLong(), 0u) << "as a job without reduction, of an older checkpoint say";
  Reduction clipped = Parse("clip_norm: 1 shard_optimizer: true digest_every: 3");
  FillDefaults(clipped);
  KeepWhatWeightsDependOn(clipped);
  EXPECT_EQ(clipped.ShortDebugString(), "clip_norm: 1");
}

}  // namespace
}  // namespace millrace::trainer
