#include "pipeline/profile/profile_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/metric_table.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

PipelineProfile ProfileOf(int64_t decode_ns, int64_t groups) {
  PipelineProfile profile;
  profile.wait_ns[static_cast<size_t>(WaitCause::kReading)] = 3 * decode_ns;
  profile.items[static_cast<size_t>(ItemKind::kProcess)].busy_ns = 2 * decode_ns;
  profile.ops.resize(2);
  profile.ops[0].stage = "source";
  profile.ops[1].stage = "decode_image";
  profile.ops[1].busy_ns = decode_ns;
  profile.reads.groups = groups;
  profile.hand_over = {groups, 10 * groups};
  return profile;
}

TEST(ProfileMetricsTest, CountersRiseByTheDifferences) {
  Metrics metrics;
  ProfileMetrics counted(metrics);
  counted.Update(ProfileOf(100, 2));
  counted.Update(ProfileOf(150, 2));
  EXPECT_THAT(metrics.CountersOf(metric::kWaitCauseSeconds), ElementsAre(Pair("reading", 450)));
  EXPECT_THAT(metrics.CountersOf(metric::kWorkerSeconds), ElementsAre(Pair("process", 300)));
  EXPECT_THAT(metrics.CountersOf(metric::kStageSeconds), ElementsAre(Pair("decode_image", 150)));
  EXPECT_THAT(metrics.CountersOf(metric::kReadGroups), ElementsAre(Pair("", 2)));
  EXPECT_THAT(metrics.CountersOf(metric::kHandOvers), ElementsAre(Pair("", 2)));
  EXPECT_THAT(metrics.CountersOf(metric::kHandOverSeconds), ElementsAre(Pair("", 20)));
}

TEST(ProfileMetricsTest, ANumberThatFallsCountsAgainOnceItIsHigherThanEver) {
  Metrics metrics;
  ProfileMetrics counted(metrics);
  counted.Update(ProfileOf(100, 2));
  counted.Update(ProfileOf(90, 2));
  counted.Update(ProfileOf(110, 2));
  EXPECT_THAT(metrics.CountersOf(metric::kStageSeconds), ElementsAre(Pair("decode_image", 110)));
}

TEST(ProfileMetricsTest, AStreamThatBeginsAnewIsAdded) {
  Metrics metrics;
  ProfileMetrics counted(metrics);
  counted.Update(ProfileOf(100, 2));
  const PipelineProfile last = ProfileOf(120, 3);
  counted.Update(last);
  PipelineProfile moved = ProfileOf(30, 1);
  moved.now_ns = 1000;
  moved.elapsed_ns = 10;
  counted.Update(moved);
  counted.Update(last);  // it comes late
  EXPECT_THAT(metrics.CountersOf(metric::kStageSeconds), ElementsAre(Pair("decode_image", 150)));
  EXPECT_THAT(metrics.CountersOf(metric::kReadGroups), ElementsAre(Pair("", 4)));
}

}  // namespace
}  // namespace millrace::pipeline
