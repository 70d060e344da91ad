#include "cli/step_sums.h"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

TEST(StepSumsTest, NothingAndTheFirstStepAloneAreZero) {
  StepSums sums;
  EXPECT_EQ(sums.wait_fraction(), 0);
  EXPECT_EQ(sums.utilisation(), 0);
  sums.Add({.wait = 7, .nominal = 1, .whole = 8});
  EXPECT_EQ(sums.wait_fraction(), 0);
  EXPECT_EQ(sums.utilisation(), 0);
}

TEST(StepSumsTest, TheFirstStepIsLeftOut) {
  StepSums sums;
  sums.Add({.wait = 100, .nominal = 1, .whole = 101});
  sums.Add({.wait = 0.5, .nominal = 1, .whole = 1.5});
  sums.Add({.wait = 0, .nominal = 2, .whole = 2.5});
  EXPECT_DOUBLE_EQ(sums.wait_fraction(), 0.5 / 4);
  EXPECT_DOUBLE_EQ(sums.utilisation(), 3.0 / 4);
}

// An oversubscribed host sleeps longer than the nominal second; that is no better use.
TEST(StepSumsTest, SleepingTooLongLowersUtilisation) {
  StepSums sums;
  for (int step = 0; step < 3; ++step) sums.Add({.wait = 0, .nominal = 1, .whole = 1.25});
  EXPECT_DOUBLE_EQ(sums.utilisation(), 0.8);
  EXPECT_EQ(sums.wait_fraction(), 0);
}

TEST(StepSumsTest, WithoutAnAcceleratorOnlyWaitingCounts) {
  StepSums sums;
  for (int step = 0; step < 2; ++step) sums.Add({.wait = 3, .whole = 4});
  EXPECT_DOUBLE_EQ(sums.wait_fraction(), 0.75);
  EXPECT_EQ(sums.utilisation(), 0);
}

}  // namespace
}  // namespace millrace::cli
