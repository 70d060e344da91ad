#include "collectives/stragglers.h"

#include <chrono>
#include <thread>
#include <vector>

#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/gradient_reducer.h"
#include "gtest/gtest.h"
#include "tests/collectives/test_buffer.h"

namespace millrace::collectives {
namespace {

TEST(Stragglers, TheOneThatWaitsLeastIsAwaited) {
  Stragglers stragglers(4);
  for (int step = 0; step < 10; ++step) {
    stragglers.Add(std::vector<double>{0.041, 0.043, 0.042, 0.001});
  }
  stragglers.Add(std::vector<double>{0.211, 0.211, 0.211, 0.001});
  const auto slowest = stragglers.Slowest();
  ASSERT_TRUE(slowest.has_value());
  EXPECT_EQ(slowest->rank, 3);
  EXPECT_NEAR(slowest->median_seconds, 0.041, 0.05 * 0.041);
  EXPECT_DOUBLE_EQ(slowest->max_seconds, 0.21);
  EXPECT_NEAR(stragglers.of(1).max_seconds, 0, 1e-12);
  EXPECT_EQ(stragglers.num_steps(), 11);
}

TEST(Stragglers, WhatAllWaitForAlikeIsNobodysFault) {
  Stragglers stragglers(3);
  for (int step = 0; step < 10; ++step) stragglers.Add(std::vector<double>{0.1, 0.1, 0.1});
  EXPECT_FALSE(stragglers.Slowest().has_value());
}

TEST(Stragglers, OfManyTwoThatAreLateTogetherAreBothFound) {
  Stragglers stragglers(5);
  stragglers.Add(std::vector<double>{0.1, 0, 0.1, 0, 0.1});
  EXPECT_DOUBLE_EQ(stragglers.of(1).max_seconds, 0.1);
  EXPECT_DOUBLE_EQ(stragglers.of(3).max_seconds, 0.1);
  EXPECT_DOUBLE_EQ(stragglers.of(0).max_seconds, 0);
}

TEST(Stragglers, ALateStepIsInTheMaximumNotInTheMedian) {
  Stragglers stragglers(2);
  for (int step = 0; step < 10; ++step) stragglers.Add(std::vector<double>{0, step == 4 ? 1.0 : 0});
  EXPECT_EQ(stragglers.of(0).median_seconds, 0);
  EXPECT_EQ(stragglers.of(0).max_seconds, 1);
}

TEST(Stragglers, ARankAloneWaitsForNobodyAndNothingIsKeptAfterClear) {
  Stragglers alone(1);
  alone.Add(std::vector<double>{0.5});
  EXPECT_FALSE(alone.Slowest().has_value());
  Stragglers two(2);
  two.Add(std::vector<double>{0.5, 0});
  two.Clear();
  EXPECT_FALSE(two.Slowest().has_value());
  EXPECT_EQ(two.num_steps(), 0);
}

TEST(Stragglers, HoursAndNanosecondsAreWithinTheHistogram) {
  Stragglers stragglers(2);
  stragglers.Add(std::vector<double>{1e9, 0});
  EXPECT_GT(stragglers.of(1).median_seconds, 500);
  Stragglers tiny(2);
  tiny.Add(std::vector<double>{1e-9, 0});
  EXPECT_EQ(tiny.of(1).median_seconds, 0);
  EXPECT_EQ(tiny.of(1).max_seconds, 1e-9);
}

// Every rank learns the same from how long Finish took on each.
TEST(Stragglers, AThreadRankThatSleepsIsNamedByAll) {
  const absl::Status status = RunRanks(4, [](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, GradientReducer::Make(comm, {{"g", {1000}}}));
    Stragglers stragglers(comm.size());
    for (int step = 0; step < 9; ++step) {
      if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(40));
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
      MILLRACE_RETURN_IF_ERROR(reducer->Finish());
      const double own = reducer->counters().last_finish_seconds;
      std::vector<double> all(4);
      MILLRACE_RETURN_IF_ERROR(
          comm.AllGather({&own, DType::kF64, Shape{1}}, {all.data(), DType::kF64, Shape{4}}));
      stragglers.Add(all);
    }
    const auto slowest = stragglers.Slowest();
    if (slowest && slowest->rank == 2) return absl::OkStatus();
    return Fail(slowest ? slowest->ToString() : "nobody");
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::collectives
