#include "cli/emulate/wait_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace millrace::cli {
namespace {

TEST(WaitHistogramTest, NothingHasNoQuantile) {
  EXPECT_EQ(WaitHistogram().Quantile(0), 0);
  EXPECT_EQ(WaitHistogram().Quantile(1), 0);
}

TEST(WaitHistogramTest, QuantilesAreAtMostA32ndTooLarge) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-9, 3);
  WaitHistogram waits;
  std::vector<double> sorted;
  for (int i = 0; i < 10000; ++i) {
    sorted.push_back(std::pow(10, exponent(random)));
    waits.Add(sorted.back());
  }
  std::sort(sorted.begin(), sorted.end());
  for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const double exact = sorted[static_cast<size_t>(std::ceil(share * 10000)) - 1];
    EXPECT_GE(waits.Quantile(share), exact - 1e-9) << share;
    EXPECT_LE(waits.Quantile(share), exact * (1 + 1.0 / 32) + 1e-9) << share;
  }
  EXPECT_EQ(waits.Quantile(1), sorted.back());
  EXPECT_EQ(waits.max(), sorted.back());
}

TEST(WaitHistogramTest, WaitsOver50MicrosecondsAreCounted) {
  WaitHistogram waits;
  for (const double wait : {0.0, 49e-6, 50e-6, 51e-6, 1.0}) waits.Add(wait);
  EXPECT_EQ(waits.count(), 5u);
  EXPECT_EQ(waits.num_noticed(), 2u);
}

TEST(WaitHistogramTest, AnyNumberHasItsPlace) {
  WaitHistogram waits;
  for (const double wait : {-1.0, 1e300, std::numeric_limits<double>::infinity()}) waits.Add(wait);
  EXPECT_EQ(waits.count(), 3u);
  EXPECT_EQ(waits.Quantile(0), 0);
}

}  // namespace
}  // namespace millrace::cli
