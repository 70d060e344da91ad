#include "trainer/loop/pipeline_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>

namespace millrace::trainer {
namespace {

// A training that is a formula. A step takes 0.1 s at a rate of 10, so a window has 8 steps.
struct SteppedTraining {
  std::function<double(int threads, int step)> rate;
  // The fraction of a step that the trainer waits for data.
  std::function<double(int threads, int step)> wait;
  double noise = 0;  // a step takes longer by as much, as a fraction, on average
  unsigned seed = 1;
  int step = 0;
  int changes = 0;  // of the limit
  std::mt19937 random{seed};

  // Makes so many steps. Returns the largest limit of them.
  int Run(PipelineThreads& threads, int steps) {
    int largest = 0;
    for (int end = step + steps; step < end; ++step) {
      double seconds = 1 / rate(threads.limit(), step);
      if (noise > 0) seconds *= 1 + std::exponential_distribution<double>(1 / noise)(random);
      const double wait_seconds = wait(threads.limit(), step) * seconds;
      const int before = threads.limit();
      const int limit = threads.AddStep(seconds, wait_seconds);
      EXPECT_EQ(limit, threads.limit());
      changes += limit == before ? 0 : 1;
      largest = std::max(largest, limit);
    }
    return largest;
  }
};

double NoWait(int, int) { return 0; }
double LongWait(int, int) { return 0.3; }
double SameRate(int, int) { return 10; }

constexpr int kWindowSteps = 8;

TEST(PipelineThreadsTest, AStarvingTrainerGetsTheThreadsThatHelpAndNoMore) {
  PipelineThreads threads(1, 8);
  SteppedTraining training{.rate = [](int limit, int) { return 10.0 * std::min(limit, 3); },
                           .wait = [](int limit, int) { return limit < 3 ? 0.4 : 0.0; }};
  EXPECT_EQ(threads.limit(), 1);
  EXPECT_EQ(training.Run(threads, 4000), 3);
  EXPECT_EQ(threads.settled(), 3);
  EXPECT_EQ(threads.Describe(8), "1 to 8 of 8 cores, settled on 3 (steps/s +200 %)");
  // A trial of each: there, back, and there again.
  EXPECT_EQ(training.changes, 6);
}

TEST(PipelineThreadsTest, AThreadIsTriedOneAtATime) {
  PipelineThreads threads(2, 8);
  SteppedTraining training{.rate = [](int limit, int) { return 10.0 * limit; }, .wait = LongWait};
  int before = threads.limit();
  for (int i = 0; i < 4000; ++i) {
    training.Run(threads, 1);
    EXPECT_LE(std::abs(threads.limit() - before), 1);
    before = threads.limit();
  }
  EXPECT_EQ(threads.settled(), 8);
}

TEST(PipelineThreadsTest, ATrainerThatDoesNotStarveIsLeftAlone) {
  for (const auto& wait : {std::function(NoWait), std::function([](int, int) { return 0.049; })}) {
    PipelineThreads threads(1, 8);
    SteppedTraining training{.rate = [](int limit, int) { return 10.0 * limit; }, .wait = wait};
    EXPECT_EQ(training.Run(threads, 4000), 1);
    EXPECT_EQ(threads.Describe(8), "1 to 8 of 8 cores, settled on 1 (the trainer did not starve)");
  }
}

// A batch that comes late now and then is no lack of threads.
TEST(PipelineThreadsTest, AShortStarvationIsNoReason) {
  PipelineThreads threads(1, 8);
  SteppedTraining training{.rate = [](int limit, int) { return 10.0 * limit; },
                           .wait = [](int, int step) { return step % 100 == 7 ? 0.9 : 0.0; }};
  EXPECT_EQ(training.Run(threads, 4000), 1);
}

TEST(PipelineThreadsTest, AThreadThatDoesNotHelpGoesAndStaysAwayForAWhile) {
  for (const double factor : {1.0, 0.8}) {
    PipelineThreads threads(1, 2);
    SteppedTraining training{.rate = [=](int limit, int) { return limit == 1 ? 10 : 10 * factor; },
                             .wait = LongWait};
    while (!threads.refused().has_value()) training.Run(threads, 1);
    EXPECT_EQ(threads.settled(), 1);
    EXPECT_EQ(threads.refused()->threads, 2);
    EXPECT_NEAR(threads.refused()->gain, factor - 1, 1e-9);
    EXPECT_EQ(training.changes, 2);
    EXPECT_EQ(training.Run(threads, 16 * kWindowSteps), 1);
    EXPECT_EQ(training.Run(threads, 4 * kWindowSteps), 2);  // once more
    EXPECT_EQ(threads.settled(), 1);
  }
}

TEST(PipelineThreadsTest, ItIsTriedLessAndLessOften) {
  PipelineThreads threads(1, 8);
  SteppedTraining training{.rate = SameRate, .wait = LongWait};
  training.Run(threads, 2000 * kWindowSteps);
  EXPECT_LE(training.changes, 2 * 7);  // after 16, 32, 64, ... windows
  EXPECT_EQ(threads.Describe(8), "1 to 8 of 8 cores, settled on 1 (2 threads: steps/s +0 %)");
}

TEST(PipelineThreadsTest, NoiseDoesNotFlap) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    PipelineThreads threads(1, 2);
    std::mt19937 random(seed);
    SteppedTraining training{
        .rate = SameRate,
        .wait = [&](int, int) { return 1e-3 * static_cast<double>(random() % 200); },
        .noise = 0.3,
        .seed = seed};
    training.Run(threads, 2000 * kWindowSteps);
    // A trial that noise decides ends all of them.
    EXPECT_LE(training.changes, 2 * 7 + 1) << seed;
  }
}

TEST(PipelineThreadsTest, AGainIsFoundInNoise) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    PipelineThreads threads(1, 2);
    SteppedTraining training{.rate = [](int limit, int) { return limit == 1 ? 10.0 : 13.1; },
                             .wait = [](int limit, int) { return limit == 1 ? 0.3 : 0.01; },
                             .noise = 0.1,
                             .seed = seed};
    training.Run(threads, 100 * kWindowSteps);
    EXPECT_EQ(threads.settled(), 2) << seed;
  }
}

// What a comparison of before and after would take for a gain.
TEST(PipelineThreadsTest, ADriftIsNoGain) {
  for (const double slope : {0.005, -0.0005}) {
    PipelineThreads threads(1, 2);
    SteppedTraining training{.rate = [=](int, int step) { return 10 * (1 + slope * step); },
                             .wait = LongWait};
    training.Run(threads, 100 * kWindowSteps);
    EXPECT_EQ(threads.settled(), 1) << slope;
    EXPECT_GT(training.changes, 0) << slope;
  }
}

TEST(PipelineThreadsTest, APhaseInWhichAThreadHelpsIsFound) {
  PipelineThreads threads(1, 2);
  constexpr int kPhase = 100 * kWindowSteps;
  SteppedTraining training{
      .rate = [](int limit, int step) { return step >= kPhase && limit == 2 ? 15.0 : 10.0; },
      .wait = LongWait};
  training.Run(threads, kPhase);
  EXPECT_EQ(threads.settled(), 1);
  training.Run(threads, 2 * kPhase);
  EXPECT_EQ(threads.settled(), 2);
  EXPECT_EQ(threads.Describe(2), "1 to 2 of 2 cores, settled on 2 (steps/s +50 %)");
}

TEST(PipelineThreadsTest, AFixedNumberStays) {
  PipelineThreads threads(3, 3);
  SteppedTraining training{.rate = [](int limit, int) { return 10.0 * limit; }, .wait = LongWait};
  EXPECT_EQ(training.Run(threads, 4000), 3);
  EXPECT_EQ(training.changes, 0);
  EXPECT_EQ(threads.Describe(8), "");
}

// A trial that is under way when the steps end is no result.
TEST(PipelineThreadsTest, AnUnfinishedTrialIsToldAsNone) {
  PipelineThreads threads(1, 2);
  SteppedTraining training{.rate = [](int limit, int) { return 10.0 * limit; }, .wait = LongWait};
  while (threads.limit() == 1) training.Run(threads, 1);
  EXPECT_EQ(threads.settled(), 1);
  EXPECT_EQ(threads.Describe(2), "1 to 2 of 2 cores, settled on 1 (too few steps to try 2)");
}

// Windows of steps that take no time at all are never long enough.
TEST(PipelineThreadsTest, ShortStepsMakeWindowsOfHalfASecond) {
  PipelineThreads threads(1, 2);
  SteppedTraining training{.rate = [](int, int) { return 1000.0; }, .wait = LongWait};
  EXPECT_EQ(training.Run(threads, 1200), 1);
  EXPECT_EQ(training.Run(threads, 100), 2);
  PipelineThreads still(1, 2);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(still.AddStep(0, 0), 1);
}

}  // namespace
}  // namespace millrace::trainer
