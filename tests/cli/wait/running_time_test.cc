#include "cli/wait/running_time.h"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

constexpr milliseconds kTurn{100};
constexpr RunningTime::Clock::time_point kStart{minutes(7)};

TEST(RunningTimeTest, TurnsCountInFull) {
  RunningTime time(kStart, kTurn);
  EXPECT_EQ(time.Look(kStart), milliseconds(0));
  EXPECT_EQ(time.Look(kStart + milliseconds(100)), milliseconds(100));
  EXPECT_EQ(time.Look(kStart + milliseconds(290)), milliseconds(290)) << "woken a little late";
}

// SIGSTOP, say. What was waited for may have come meanwhile: it gets its time again.
TEST(RunningTimeTest, AStopOfTheProcessDoesNotCount) {
  RunningTime time(kStart, kTurn);
  EXPECT_EQ(time.Look(kStart + milliseconds(100)), milliseconds(100));
  EXPECT_EQ(time.Look(kStart + minutes(10)), milliseconds(300));
  EXPECT_EQ(time.Look(kStart + minutes(10) + milliseconds(100)), milliseconds(400));
}

TEST(RunningTimeTest, NeitherDoesAStopBeforeTheFirstLook) {
  EXPECT_EQ(RunningTime(kStart, kTurn).Look(kStart + minutes(10)), milliseconds(200));
}

}  // namespace
}  // namespace millrace::cli
