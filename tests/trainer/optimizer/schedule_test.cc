#include "trainer/optimizer/schedule.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "tests/trainer/optimizer/optimizer_specs.h"

namespace millrace::trainer {
namespace {

Schedule MakeSchedule(const std::string& text, uint64_t batch = 256) {
  return Schedule::Make(ParseOptimizer(text), batch, 10, 100);
}

TEST(ScheduleTest, TheRateGrowsWithTheGlobalBatch) {
  EXPECT_DOUBLE_EQ(MakeSchedule("base_lr: 0.1 base_batch: 256", 1024).RateAt(0), 0.4);
  EXPECT_DOUBLE_EQ(MakeSchedule("base_lr: 0.1", 1024).RateAt(99), 0.1);
  EXPECT_DOUBLE_EQ(MakeSchedule("").RateAt(0), 0.1) << "the default";
}

TEST(ScheduleTest, WarmUpIsLinearPerStepAndEndsAtTheFullRate) {
  const Schedule schedule = MakeSchedule("base_lr: 1 warmup_epochs: 0.5 warmup_steps: 5");
  EXPECT_EQ(schedule.warmup_steps(), 10u);
  for (int step = 0; step < 10; ++step) {
    EXPECT_DOUBLE_EQ(schedule.RateAt(step), (step + 1) / 10.0);
  }
  EXPECT_DOUBLE_EQ(schedule.RateAt(10), 1);
  EXPECT_DOUBLE_EQ(MakeSchedule("base_lr: 1 warmup_steps: 4 warmup_start_lr: 0.2").RateAt(1), 0.6);
}

TEST(ScheduleTest, CosineFallsFromTheFullRateToTheEnd) {
  const Schedule schedule = MakeSchedule("base_lr: 2 warmup_epochs: 2 cosine { end_lr: 0.5 }");
  EXPECT_DOUBLE_EQ(schedule.RateAt(20), 2);
  EXPECT_DOUBLE_EQ(schedule.RateAt(60), 1.25);
  EXPECT_NEAR(schedule.RateAt(99), 0.5 + 0.75 * (1 + std::cos(std::numbers::pi * 79 / 80)), 1e-12);
  EXPECT_DOUBLE_EQ(schedule.RateAt(100), 0.5);
}

TEST(ScheduleTest, StepsMultiplyAtTheirEpochs) {
  const Schedule schedule = MakeSchedule("base_lr: 1 step { epoch: 3 epoch: 6 }");
  EXPECT_DOUBLE_EQ(schedule.RateAt(29), 1);
  EXPECT_DOUBLE_EQ(schedule.RateAt(30), 0.1);
  EXPECT_NEAR(schedule.RateAt(60), 0.01, 1e-15);
}

}  // namespace
}  // namespace millrace::trainer
