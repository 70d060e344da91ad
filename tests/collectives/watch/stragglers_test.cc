#include "collectives/stragglers.h"

#include <vector>

#include "gtest/gtest.h"

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

}  // namespace
}  // namespace millrace::collectives
