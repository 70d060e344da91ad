#include "pipeline/crop_watch.h"

#include <gtest/gtest.h>

#include <string>

#include "pipeline/plan_view.h"

namespace millrace::pipeline {
namespace {

Plan PlanOf(const std::string& stages) {
  auto plan = Plan::FromText(
      "seed: 7 stage { tfrecord { files: \"$$x\" } } " + stages + " stage { batch { size: 4 } }",
      "test.pbtxt");
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

// Stage 2 makes images of 40 x 30 pixels, and what follows is stage 3 and so on.
CropWatch WatchOf(const std::string& stages) {
  return CropWatch::Make(
      PlanOf("stage { parse_example { feature { key: \"image\" dtype: BYTES } "
             "                        feature { key: \"mask\" dtype: BYTES } } } "
             "stage { decode_raw { field: \"image\" shape: [40, 30, 3] } } " +
             stages));
}

constexpr SampleId kSample{.epoch = 2, .record = 5};

TEST(CropWatchTest, AStageStandsInFrontOfEveryDecoder) {
  const Plan plan = PlanOf(
      "stage { parse_example { feature { key: \"a\" dtype: BYTES } "
      "                        feature { key: \"b\" dtype: BYTES } } } "
      "stage { decode_image { field: \"a\" output: \"x\" } } "
      "stage { decode_image { field: \"b\" output: \"y\" } }");
  const CropWatch watch = CropWatch::Make(plan);
  const auto before = StagesOf(plan);
  const auto after = StagesOf(watch.watched());
  ASSERT_EQ(after.size(), before.size() + 2);
  EXPECT_EQ(after[2].op, "custom");
  EXPECT_EQ(after[4].op, "custom");
  EXPECT_EQ(watch.ops()->KindOf("millrace/note_extents", 1), OpTable::Kind::kSample);
  // Draws go by the stages' names.
  EXPECT_EQ(after[3].name, before[2].name);
  EXPECT_EQ(after[5].name, before[3].name);
  EXPECT_EQ(after[0].options, before[0].options);
}

TEST(CropWatchTest, TheWindowIsWhatTheOpDraws) {
  const CropWatch watch = WatchOf(
      "stage { pad { top: 1 left: 2 } } stage { flip {} } "
      "stage { random_crop { height: 8 width: 9 } } "
      "stage { random_resized_crop { height: 5 width: 5 } }");
  const auto draws = [](const char* stage) {
    return RandomStream({.seed = 7, .op = HashName(stage), .epoch = 2, .record = 5});
  };
  EXPECT_EQ(watch.WindowOf(5, kSample),
            augment::DrawnCrop(augment::RandomCropOptions{.height = 8, .width = 9}, 41, 32,
                               draws("random_crop")));
  EXPECT_EQ(watch.WindowOf(6, kSample), augment::DrawnCrop(augment::RandomResizedCropOptions{}, 8,
                                                           9, draws("random_resized_crop")));
}

TEST(CropWatchTest, APlanThatUsesTheNotesNamesIsWatchedAsItIs) {
  const Plan plan = PlanOf(
      "stage { parse_example { feature { key: \"image\" dtype: BYTES } } } "
      "stage { decode_image { field: \"image\" } } "
      "stage { name: \"millrace_note_extents_2\" flip {} } "
      "stage { random_crop { height: 4 width: 4 } }");
  const CropWatch watch = CropWatch::Make(plan);
  EXPECT_EQ(watch.watched().ToText(), plan.ToText());
  EXPECT_EQ(watch.WindowOf(4, kSample), std::nullopt);
}

TEST(CropWatchTest, AMaskHasTheExtentsOfTheImageThatItWentAlongWith) {
  const CropWatch watch = WatchOf(
      "stage { decode_raw { field: \"mask\" shape: [40, 30, 1] } } "
      "stage { resize { height: 20 width: 15 mask: \"mask\" } } "
      "stage { random_crop { field: \"mask\" height: 8 width: 9 } }");
  const RandomStream draws({.seed = 7, .op = HashName("random_crop"), .epoch = 2, .record = 5});
  EXPECT_EQ(watch.WindowOf(5, kSample),
            augment::DrawnCrop(augment::RandomCropOptions{.height = 8, .width = 9}, 20, 15, draws));
}

TEST(CropWatchTest, OtherStagesHaveNoWindow) {
  const CropWatch watch = WatchOf("stage { flip {} } stage { center_crop { height: 4 width: 4 } }");
  for (size_t stage = 0; stage < 6; ++stage)
    EXPECT_EQ(watch.WindowOf(stage, kSample), std::nullopt);
}

TEST(CropWatchTest, WhereExtentsAreNotKnownThereIsNoWindow) {
  const std::string crop = "stage { random_crop { height: 4 width: 4 } }";
  for (const char* stage : {"stage { custom { op: \"mine\" } }", "stage { resize { shorter: 20 } }",
                            "stage { transpose { perm: [1, 0, 2] } }"}) {
    EXPECT_EQ(WatchOf(stage + crop).WindowOf(4, kSample), std::nullopt) << stage;
  }
  EXPECT_NE(WatchOf(crop).WindowOf(3, kSample), std::nullopt);
}

TEST(CropWatchTest, ACropThatDoesNotFitHasNoWindow) {
  const CropWatch watch = WatchOf("stage { random_crop { height: 41 width: 4 } }");
  EXPECT_EQ(watch.WindowOf(3, kSample), std::nullopt);
}

}  // namespace
}  // namespace millrace::pipeline
