#include "pipeline/plan_view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::pipeline {
namespace {

using Layout = FieldHistory::Layout;

Plan PlanWith(const std::string& stages) {
  auto plan = Plan::FromText(
      "seed: 7 stage { tfrecord { files: \"x\" } } " + stages + " stage { batch { size: 4 } }",
      "test.pbtxt");
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

constexpr char kDecode[] =
    "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } } } "
    "stage { decode_image {} } ";

TEST(PlanViewTest, StagesHaveNamesAndOptionsWithDefaults) {
  const auto stages = StagesOf(PlanWith("stage { name: \"turn\" flip { field: \"a\" } }"));
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[1].name, "turn");
  EXPECT_EQ(stages[1].op, "flip");
  EXPECT_EQ(stages[1].options, "field: \"a\" probability: 0.5");
}

TEST(PlanViewTest, AFieldThatNoStageNamesHasNoHistory) {
  const FieldHistory history = HistoryOf(PlanWith(kDecode), "label");
  EXPECT_EQ(history.layout, Layout::kUnknown);
  EXPECT_FALSE(history.values.has_value());
  EXPECT_TRUE(history.stages.empty());
}

TEST(PlanViewTest, NormalizeAndCastAddUp) {
  const Plan plan = PlanWith(std::string(kDecode) +
                             "stage { normalize { mean: [10, 20, 30] stddev: [2, 4, 5] } } "
                             "stage { cast { field: \"image\" dtype: FLOAT16 scale: 3 } }");
  const FieldHistory history = HistoryOf(plan, "image");
  ASSERT_TRUE(history.values.has_value());
  ASSERT_EQ(history.values->size(), 3u);
  EXPECT_DOUBLE_EQ((*history.values)[1].scale, 3.0 / 4);
  EXPECT_DOUBLE_EQ((*history.values)[1].offset, -20 * 3.0 / 4);
  EXPECT_EQ(history.layout, Layout::kChannelsLast);
  EXPECT_EQ(history.channels, 3);
  EXPECT_EQ(history.stages, (std::vector<size_t>{2, 3, 4}));
}

TEST(PlanViewTest, TransposeTurnsTheLayout) {
  const auto layout = [](const std::string& stages) {
    return HistoryOf(PlanWith(kDecode + stages), "image").layout;
  };
  EXPECT_EQ(layout(""), Layout::kChannelsLast);
  EXPECT_EQ(layout("stage { transpose {} }"), Layout::kChannelsFirst);
  EXPECT_EQ(layout("stage { transpose {} } stage { transpose { perm: [1, 2, 0] } }"),
            Layout::kChannelsLast);
  EXPECT_EQ(layout("stage { transpose { perm: [1, 0, 2] } }"), Layout::kChannelsLast);
  EXPECT_EQ(layout("stage { transpose { perm: [0, 2, 1] } }"), Layout::kUnknown);
}

TEST(PlanViewTest, WhatACustomStageDoesIsNotKnown) {
  const FieldHistory history =
      HistoryOf(PlanWith(std::string(kDecode) + "stage { custom { op: \"mine\" } }"), "image");
  EXPECT_FALSE(history.values.has_value());
  EXPECT_EQ(history.layout, Layout::kUnknown);
}

TEST(PlanViewTest, AStageThatChangesNumbersLeavesThemUnknown) {
  const FieldHistory history = HistoryOf(
      PlanWith(std::string(kDecode) + "stage { clip { field: \"image\" min: 3 } }"), "image");
  EXPECT_FALSE(history.values.has_value());
}

TEST(PlanViewTest, StagesActWithTheirProbability) {
  const Plan plan =
      PlanWith(std::string(kDecode) +
               "stage { flip { probability: 0.25 } } stage { flip { probability: 1 } } "
               "stage { flip { probability: 0 } } stage { transpose {} }");
  int acted = 0;
  for (uint64_t record = 0; record < 4000; ++record) {
    const SampleId id{.epoch = 1, .record = record};
    acted += *HasActed(plan, 3, id) ? 1 : 0;
    EXPECT_TRUE(*HasActed(plan, 4, id));
    EXPECT_FALSE(*HasActed(plan, 5, id));
  }
  EXPECT_NEAR(acted, 1000, 150);  // 5.5 standard deviations
  EXPECT_FALSE(HasActed(plan, 6, {}).has_value());
  EXPECT_FALSE(HasActed(plan, 2, {}).has_value());
}

}  // namespace
}  // namespace millrace::pipeline
