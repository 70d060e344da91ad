#include "pipeline/executor/hand_over_clock.h"

#include <gtest/gtest.h>

namespace millrace::pipeline {
namespace {

HandOverProfile Filled(const HandOverClock& clock) {
  PipelineProfile profile;
  clock.Fill(profile);
  return profile.hand_over;
}

TEST(HandOverClockTest, OneCallInEightIsMeasured) {
  HandOverClock clock;
  for (int i = 0; i < 17; ++i) EXPECT_EQ(clock.Samples(), i % 8 == 0) << i;
}

TEST(HandOverClockTest, TimesAddUpUntilTheStreamBeginsAnew) {
  HandOverClock clock;
  EXPECT_EQ(Filled(clock).calls, 0);
  clock.Add(50);
  clock.Add(70);
  EXPECT_EQ(Filled(clock).calls, 2);
  EXPECT_EQ(Filled(clock).ns, 120);
  clock.Begin();
  EXPECT_EQ(Filled(clock).calls, 0);
  EXPECT_EQ(Filled(clock).ns, 0);
}

}  // namespace
}  // namespace millrace::pipeline
