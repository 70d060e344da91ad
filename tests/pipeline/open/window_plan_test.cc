#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/explain/explain.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/plan/message.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"

// The front-end of window: its place, its options, the fields behind it, what explain says.

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;

constexpr char kParseXAndLabel[] =
    "stage { parse_example { feature { key: \"x\" dtype: FLOAT32 shape: 2 } "
    "feature { key: \"label\" dtype: INT64 } } }\n";
constexpr char kWindow[] = "stage { window { size: 24 shift: 1 drop_remainder: true } }\n";

absl::StatusOr<PhysicalPlan> PhysicalOfWindow(const std::string& text) {
  return BuildPhysicalPlan(Make(text));
}
absl::Status WindowErrorOf(const std::string& text) {
  const auto physical = PhysicalOfWindow(text);
  EXPECT_EQ(physical.status().code(), absl::StatusCode::kInvalidArgument);
  return physical.status();
}
std::string ParsedX(const std::string& feature) {
  return absl::StrCat(kSource, "stage { parse_example { feature { key: \"x\" ", feature,
                      " } } }\n");
}

// S-PLAN-18, S-PLAN-1.
TEST(WindowPlanTest, DefaultsAreFilledIn) {
  const Plan plan =
      Make(absl::StrCat(kSource, kParseXAndLabel, "stage { window { size: 24 } }\n", kBatch));
  const proto::Stage& stage = plan.message().pipeline.stage(2);
  EXPECT_EQ(stage.name(), "window");
  EXPECT_EQ(stage.window().shift(), 24u);
  EXPECT_EQ(stage.window().stride(), 1u);
  EXPECT_FALSE(stage.window().drop_remainder());
  EXPECT_EQ(Make(plan.ToText()).Fingerprint(), plan.Fingerprint());
}

// S-PLAN-18.
TEST(WindowPlanTest, OptionsOutOfRangeAreRefusedAtTheirPlace) {
  for (const char* options :
       {"", "size: 0", "size: 1048577", "size: 4 shift: 0", "size: 4 stride: 0",
        "size: 4 shift: 1099511627777", "size: 4 stride: 1099511627777"}) {
    EXPECT_MESSAGE(StageError(absl::StrCat("window { ", options, " }")));
  }
}

// S-PLAN-18.
TEST(WindowPlanTest, WhatCannotStandAroundAWindowIsRefusedAtItsPlace) {
  const std::string filter = "stage { filter { predicate: \"label > 1\" } }\n";
  const auto with = [](const std::string& stages) {
    return ErrorOf(absl::StrCat(kSource, kParseXAndLabel, stages, kBatch));
  };
  EXPECT_MESSAGE(with(filter + kWindow));
  EXPECT_MESSAGE(with("stage { unbatch { field: \"x\" } }\n" + std::string(kWindow)));
  EXPECT_MESSAGE(with(kWindow + filter));
  EXPECT_MESSAGE(with(kWindow + std::string("stage { unbatch {} }\n")));
  EXPECT_MESSAGE(
      with(kWindow + std::string("stage { filter { predicate: \"label > 1\" materialize: true } "
                                 "}\n")));
  EXPECT_MESSAGE(with(kWindow + std::string(kWindow)));
  EXPECT_MESSAGE(ErrorOf(absl::StrCat("stage { push {} }\n", kParseXAndLabel, kWindow, kBatch)));
  EXPECT_MESSAGE(ErrorOf(absl::StrCat(kSource, kParseXAndLabel, kBatch, kWindow)));
  EXPECT_MESSAGE(ErrorOf(absl::StrCat(kWindow, kBatch)));
  EXPECT_MESSAGE(ErrorOf(absl::StrCat("stage { concatenate { input { ", kSource, kWindow,
                                      " } } }\n", kParseXAndLabel, kBatch)));
  EXPECT_MESSAGE(with(kWindow + std::string("stage { interleave {} }\n")));
  EXPECT_MESSAGE(ErrorOf(absl::StrCat(kSource, kParseXAndLabel, kWindow,
                                      "stage { bucket_by_length { field: \"x\" boundary: 4 "
                                      "batch_size: [4, 4] } }\n")));
}

// S-PLAN-18.
TEST(WindowPlanTest, WhatIsArithmeticMayStandAroundAWindow) {
  const std::string shuffle = "stage { shuffle { buffer_size: 9 } }\n";
  Make(absl::StrCat(kSource, shuffle, kParseXAndLabel, kWindow, "stage { global_shuffle {} }\n",
                    kBatch));
  Make(absl::StrCat(kSource, "stage { repeat {} }\n", kParseXAndLabel, kWindow, kBatch));
  Make(absl::StrCat(kSource, kParseXAndLabel,
                    "stage { filter { predicate: \"label > 1\" materialize: true } }\n", kWindow,
                    "stage { take { count: 100 } }\n", kBatch, "stage { repeat {} }\n"));
  EXPECT_MESSAGE(ErrorOf(absl::StrCat(kSource, "stage { repeat {} }\n", kParseXAndLabel, kWindow,
                                      "stage { global_shuffle {} }\n", kBatch)));
}

// S-PLAN-18.
TEST(WindowPlanTest, OptionsAndStepsInFrontArrive) {
  const auto physical = *PhysicalOfWindow(
      absl::StrCat(kSource, "stage { skip { count: 2 } }\n", kParseXAndLabel,
                   "stage { window { size: 5 shift: 3 stride: 2 drop_remainder: true } }\n",
                   "stage { take { count: 4 } }\n", kBatch));
  ASSERT_TRUE(physical.window.has_value());
  EXPECT_EQ(physical.window->stage, "window");
  EXPECT_EQ(physical.window->size, 5u);
  EXPECT_EQ(physical.window->shift, 3u);
  EXPECT_EQ(physical.window->stride, 2u);
  EXPECT_TRUE(physical.window->drop_remainder);
  ASSERT_EQ(physical.window->order.steps.size(), 1u);
  EXPECT_EQ(physical.window->order.steps[0].kind, OrderStep::Kind::kSkip);
  ASSERT_EQ(physical.order.steps.size(), 1u);
  EXPECT_EQ(physical.order.steps[0].kind, OrderStep::Kind::kTake);
}

// S-PLAN-18, S-PLAN-4.
TEST(WindowPlanTest, FieldsGetALeadingExtent) {
  for (const char* batch : {"batch", "padded_batch", "ragged_batch"}) {
    const auto physical = *PhysicalOfWindow(
        absl::StrCat(kSource, kParseXAndLabel, kWindow, "stage { ", batch, " { size: 4 } }\n"));
    EXPECT_EQ(physical.batch_schema.ToString(), "x: float32[24, 2], label: int64[24]");
    EXPECT_FALSE(physical.cut.has_value());
    EXPECT_EQ(OpStages(physical), (std::vector<std::string>{"parse_example", "window"}));
    EXPECT_EQ(physical.ops[1].binds, (std::vector<std::string>{"x", "label"}));
  }
}

// S-PLAN-18, S-PLAN-4.
TEST(WindowPlanTest, FieldsWithoutOneShapeAreRefusedAtTheWindow) {
  EXPECT_MESSAGE(WindowErrorOf(absl::StrCat(kSource, kWindow, kBatch)));
  EXPECT_MESSAGE(WindowErrorOf(absl::StrCat(ParsedX("dtype: BYTES"), kWindow, kBatch)));
  EXPECT_MESSAGE(WindowErrorOf(absl::StrCat(ParsedX("dtype: INT64 shape: -1"), kWindow, kBatch)));
  EXPECT_MESSAGE(
      WindowErrorOf(absl::StrCat(ParsedX("dtype: INT64 shape: [1, 1, 1, 1, 1]"), kWindow, kBatch)));
}

// No op is fused with one on the other side of the window.
TEST(WindowPlanTest, RulesStayOnTheirSideOfTheWindow) {
  const std::string text = absl::StrCat(
      ParsedX("dtype: BYTES"),
      "stage { decode_image { field: \"x\" output: \"image\" channels: 3 } }\n"
      "stage { resize { height: 8 width: 8 } }\nstage { normalize { mean: [1, 1, 1] stddev: [2, 2, "
      "2] } }\n",
      "stage { window { size: 2 } }\nstage { cast { field: \"image\" dtype: FLOAT16 } }\n", kBatch);
  const auto physical = *PhysicalOfWindow(text);
  EXPECT_EQ(physical.batch_schema.ToString(), "image: float16[2, 8, 8, 3]");
  EXPECT_EQ(OpStages(physical).back(), "cast");
  EXPECT_EQ(physical.ops.back().binds, (std::vector<std::string>{"image"}));
}

// S-FINGERPRINT-1, S-FINGERPRINT-2.
TEST(WindowPlanTest, TheFingerprintCoversTheOptions) {
  std::vector<uint64_t> prints = {
      Make(absl::StrCat(kSource, kParseXAndLabel, kBatch)).Fingerprint()};
  for (const char* options : {"size: 6", "size: 5", "size: 6 shift: 5", "size: 6 stride: 2",
                              "size: 6 drop_remainder: true"}) {
    prints.push_back(
        Make(absl::StrCat(kSource, kParseXAndLabel, "stage { window { ", options, " } }\n", kBatch))
            .Fingerprint());
  }
  EXPECT_EQ(Make(absl::StrCat(kSource, kParseXAndLabel,
                              "stage { window { size: 6 shift: 6 stride: 1 } }\n", kBatch))
                .Fingerprint(),
            prints[1]);
  std::ranges::sort(prints);
  EXPECT_EQ(std::ranges::adjacent_find(prints), prints.end());
}

TEST(WindowPlanTest, ExplainShowsTheOrderOnBothSidesAndTheLength) {
  const Plan plan =
      Make(absl::StrCat(kSource, "stage { shard { num_shards: 2 } }\n", kParseXAndLabel,
                        "stage { window { size: 24 shift: 3 stride: 2 drop_remainder: true } }\n",
                        "stage { skip { count: 3 } }\n", kBatch));
  const std::string text =
      ExplainText(plan, *BuildPhysicalPlan(plan), SourceFacts{{{2, 1000, 1 << 20}}, 0, 1});
  for (const char* part :
       {"   4  window                  size: 24 shift: 3 stride: 2 drop_remainder: true\n",
        "  order   shard: elements 0, 0 + 2, ...\n"
        "          window: 24 elements, 2 apart, a window every 3: each element is in about 8\n"
        "          skip: without the first 3\n",
        "window: -> x: float32[24, 2], label: int64[24]  [window]\n",
        "  samples 149\n  batches 38\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const Plan apart =
      Make(absl::StrCat(kSource, kParseXAndLabel, "stage { window { size: 4 } }\n", kBatch));
  EXPECT_THAT(ExplainText(apart, *BuildPhysicalPlan(apart), std::nullopt),
              HasSubstr("  order   window: 4 elements, a window every 4\n"));
}

}  // namespace
}  // namespace millrace::pipeline
