#include "trainer/optimizer/schedule.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "tests/trainer/optimizer/optimizer_fixtures.h"
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

TEST(ScheduleTest, TheSquareRootRuleGrowsLess) {
  EXPECT_DOUBLE_EQ(
      MakeSchedule("base_lr: 0.1 base_batch: 256 scaling: SQUARE_ROOT", 1024).RateAt(0), 0.2);
}

TEST(ScheduleTest, EveryRateIsPyTorchs) {
  const std::vector<ScheduleCase> cases = ReadScheduleCases();
  for (const ScheduleCase& one : cases) {
    const Schedule schedule =
        Schedule::Make(ParseOptimizer(one.spec), 1, one.steps_per_epoch, one.total_steps);
    ASSERT_EQ(one.rates.size(), one.total_steps) << one.name;
    for (size_t step = 0; step < one.rates.size(); ++step) {
      EXPECT_NEAR(schedule.RateAt(step), one.rates[step], 1e-14) << one.name << ", step " << step;
    }
  }
}

TEST(ScheduleTest, EveryCurveBeginsAfterTheWarmUp) {
  for (const char* const curve :
       {"cosine {}", "polynomial { power: 2 }", "exponential { factor: 0.5 }",
        "cosine_restarts { epochs: 4 }", "step { epoch: 5 }"}) {
    const Schedule schedule = MakeSchedule(absl::StrCat("base_lr: 2 warmup_steps: 20 ", curve));
    EXPECT_DOUBLE_EQ(schedule.RateAt(19), 2) << curve;
    EXPECT_DOUBLE_EQ(schedule.RateAt(20), 2) << curve;
    EXPECT_LT(schedule.RateAt(50), schedule.RateAt(40)) << curve;
  }
}

TEST(ScheduleTest, RatesAreFiniteWhateverTheNumberOfSteps) {
  for (const char* const curve :
       {"cosine {}", "polynomial {}", "one_cycle {}", "one_cycle { pct_start: 0.01 }",
        "cosine_restarts { epochs: 1e-9 multiplier: 1.5 }", "exponential { factor: 1e-9 }"}) {
    for (const uint64_t total : {1, 2, 3, 7}) {
      const Schedule schedule = Schedule::Make(ParseOptimizer(curve), 1, 1, total);
      for (uint64_t step = 0; step <= total; ++step) {
        EXPECT_TRUE(schedule.RateAt(step) >= 0 && schedule.RateAt(step) <= 0.1)
            << curve << ", step " << step << " of " << total << ": " << schedule.RateAt(step);
      }
    }
  }
}

TEST(ScheduleTest, TheDescriptionNamesTheCurve) {
  EXPECT_EQ(MakeSchedule("").Describe(), "no warm-up, then constant");
  EXPECT_EQ(MakeSchedule("warmup_steps: 5 polynomial { power: 2 }").Describe(),
            "linear warm-up over 5 steps from 0, then polynomial of power 2 to 0");
  EXPECT_EQ(MakeSchedule("exponential { factor: 0.5 }").Describe(),
            "no warm-up, then times 0.5 in 1 epochs");
  EXPECT_EQ(MakeSchedule("cosine_restarts { epochs: 2 multiplier: 3 }").Describe(),
            "no warm-up, then cosines to 0, the first over 20 steps, each 3 times as long as the "
            "one before");
  EXPECT_EQ(MakeSchedule("base_lr: 1 one_cycle {}").Describe(),
            "no warm-up, then one cycle from 0.04 over 1 at step 29 to 4e-06");
}

}  // namespace
}  // namespace millrace::trainer
