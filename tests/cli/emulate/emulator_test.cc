#include "cli/emulate/emulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace millrace::cli {
namespace {

constexpr double kForEver = std::numeric_limits<double>::infinity();

// A time that passes only where a test says so.
class FakeTime {
 public:
  EmulatorClock clock() {
    return {.now = [this] { return now_; },
            .sleep_until = [this](double time) { now_ = std::max(now_, time) + oversleep_; }};
  }
  void Pass(double seconds) { now_ += seconds; }
  void set_oversleep(double seconds) { oversleep_ = seconds; }
  double now() const { return now_; }

 private:
  double now_ = 0;
  double oversleep_ = 0;
};

class EmulatorTest : public testing::Test {
 protected:
  // One batch of 10 rows that comes after `wait` seconds.
  void Step(Emulator& emulator, double wait) {
    emulator.SleepUntilFree(kForEver);
    emulator.Ask();
    time_.Pass(wait);
    emulator.Deliver(10);
  }

  FakeTime time_;
};

TEST_F(EmulatorTest, OneThatNeverWaitsIsFullyUsed) {
  Emulator emulator(time_.clock(), 1, 0.1);
  for (int i = 0; i < 5; ++i) Step(emulator, 0);
  EXPECT_DOUBLE_EQ(emulator.sums().utilisation().value(), 1);
  EXPECT_DOUBLE_EQ(time_.now(), 4);  // the fifth second is still to come
  emulator.Drain(kForEver);
  EXPECT_DOUBLE_EQ(time_.now(), 5);
}

TEST_F(EmulatorTest, TheFirstStepIsLeftOut) {
  Emulator emulator(time_.clock(), 1, 0.1);
  Step(emulator, 100);
  EXPECT_EQ(emulator.sums().utilisation(), std::nullopt);
  Step(emulator, 1);
  EXPECT_DOUBLE_EQ(emulator.sums().utilisation().value(), 0.5);
  EXPECT_DOUBLE_EQ(emulator.sums().waits().max(), 1);
}

TEST_F(EmulatorTest, SleepingTooLongIsNoWaitButLowersUtilisation) {
  Emulator emulator(time_.clock(), 1, 0.1);
  time_.set_oversleep(0.25);
  for (int i = 0; i < 5; ++i) Step(emulator, 0);
  EXPECT_DOUBLE_EQ(emulator.sums().utilisation().value(), 0.8);
  EXPECT_EQ(emulator.sums().wait_fraction(), 0);
}

TEST_F(EmulatorTest, WhatTheHostDoesBetweenBatchesIsNoWait) {
  Emulator emulator(time_.clock(), 1, 0);
  for (int i = 0; i < 3; ++i) {
    Step(emulator, 1);
    time_.Pass(3);
  }
  EXPECT_DOUBLE_EQ(emulator.sums().wait_fraction(), 0.25);
}

// A batch comes every half second, and each of two accelerators takes a second for one.
TEST_F(EmulatorTest, TwoShareAStreamThatIsTwiceAsFast) {
  Emulator emulator(time_.clock(), 2, 0.1);
  double made_at = 0;
  for (int i = 0; i < 20; ++i) {
    emulator.SleepUntilFree(kForEver);
    emulator.Ask();
    made_at += 0.5;
    time_.Pass(std::max(0.0, made_at - time_.now()));
    emulator.Deliver(10);
  }
  EXPECT_TRUE(emulator.all_started());
  EXPECT_DOUBLE_EQ(emulator.sums().utilisation().value(), 1);
}

// Each batch takes a second to come and each accelerator a second to use it: of three, each waits
// for two seconds, one of them while others' batches were waited for.
TEST_F(EmulatorTest, ThreeShareAStreamThatFeedsOne) {
  Emulator emulator(time_.clock(), 3, 0.1);
  for (int i = 0; i < 30; ++i) Step(emulator, 1);
  EXPECT_DOUBLE_EQ(emulator.sums().utilisation().value(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(emulator.sums().waits().max(), 2);
  EXPECT_DOUBLE_EQ(emulator.sums().wait_fraction(), 2.0 / 3);
}

TEST_F(EmulatorTest, WhatCameBeforeMeasureDoesNotCount) {
  Emulator emulator(time_.clock(), 1, 0.1);
  for (int i = 0; i < 5; ++i) Step(emulator, 7);
  emulator.Measure();
  EXPECT_EQ(emulator.sums().waits().count(), 0u);
  Step(emulator, 0);
  EXPECT_DOUBLE_EQ(emulator.sums().utilisation().value(), 1);
}

TEST_F(EmulatorTest, StarvedAcceleratorsCountAlthoughTheyGetNothing) {
  Emulator emulator(time_.clock(), 4, 0.1);
  emulator.Measure();
  Step(emulator, 0);
  EXPECT_FALSE(Emulator(time_.clock(), 1, 0.1).all_started());
  time_.Pass(1);
  emulator.CountIdle();
  EXPECT_DOUBLE_EQ(emulator.sums().utilisation().value(), 0.25);
  emulator.CountIdle();  // nothing more
  EXPECT_DOUBLE_EQ(emulator.sums().utilisation().value(), 0.25);
}

TEST_F(EmulatorTest, NoSleepGoesBeyondTheLimit) {
  Emulator emulator(time_.clock(), 1, 1e9);
  Step(emulator, 0);
  emulator.SleepUntilFree(2);
  EXPECT_EQ(time_.now(), 2);
  emulator.Drain(3);
  EXPECT_EQ(time_.now(), 3);
}

}  // namespace
}  // namespace millrace::cli
