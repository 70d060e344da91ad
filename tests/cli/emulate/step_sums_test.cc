#include "cli/emulate/step_sums.h"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

TEST(StepSumsTest, WithoutAStepNothingIsKnownOfUtilisation) {
  const StepSums sums;
  EXPECT_EQ(sums.wait_fraction(), 0);
  EXPECT_EQ(sums.utilisation(), std::nullopt);
  EXPECT_EQ(sums.waits().count(), 0u);
}

TEST(StepSumsTest, SharesAreOfTheWholeTime) {
  StepSums sums;
  sums.Add({.wait = 0.5, .nominal = 1, .whole = 1.5});
  sums.Add({.wait = 0, .nominal = 2, .whole = 2.5});
  EXPECT_DOUBLE_EQ(sums.wait_fraction(), 0.5 / 4);
  EXPECT_DOUBLE_EQ(sums.utilisation().value(), 3.0 / 4);
  EXPECT_EQ(sums.waits().max(), 0.5);
}

// An oversubscribed host sleeps longer than the nominal second; that is no better use.
TEST(StepSumsTest, SleepingTooLongLowersUtilisation) {
  StepSums sums;
  for (int step = 0; step < 3; ++step) sums.Add({.wait = 0, .nominal = 1, .whole = 1.25});
  EXPECT_DOUBLE_EQ(sums.utilisation().value(), 0.8);
  EXPECT_EQ(sums.wait_fraction(), 0);
}

TEST(StepSumsTest, WithoutAnAcceleratorOnlyWaitingCounts) {
  StepSums sums;
  sums.Add({.wait = 3, .whole = 4});
  EXPECT_DOUBLE_EQ(sums.wait_fraction(), 0.75);
  EXPECT_EQ(sums.utilisation(), 0);
}

TEST(StepSumsTest, ABatchThatNeverCameIsWaitedForToo) {
  StepSums sums;
  sums.Add({.wait = 0, .nominal = 1, .whole = 1});
  sums.AddIdle(3);
  EXPECT_DOUBLE_EQ(sums.utilisation().value(), 0.25);
  EXPECT_DOUBLE_EQ(sums.wait_fraction(), 0.75);
  EXPECT_EQ(sums.waits().count(), 1u);  // it is no step
}

}  // namespace
}  // namespace millrace::cli
