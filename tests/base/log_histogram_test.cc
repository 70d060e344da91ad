#include "base/log_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using Bins = LogHistogram<8, 44>;

TEST(LogHistogramTest, NothingHasNoQuantile) {
  EXPECT_EQ(Bins().Quantile(0), 0u);
  EXPECT_EQ(Bins().Quantile(1), 0u);
}

TEST(LogHistogramTest, QuantilesAreAtMostAnEighthTooLarge) {
  std::mt19937_64 random(1);
  Bins histogram;
  std::vector<uint64_t> sorted;
  for (int i = 0; i < 10000; ++i) {
    sorted.push_back(random() >> (20 + random() % 44));
    histogram.Add(sorted.back());
  }
  std::ranges::sort(sorted);
  for (const double fraction : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const uint64_t exact = sorted[static_cast<size_t>(std::ceil(fraction * 10000)) - 1];
    EXPECT_GE(histogram.Quantile(fraction), exact) << fraction;
    EXPECT_LE(histogram.Quantile(fraction), exact + exact / 8) << fraction;
  }
  EXPECT_EQ(histogram.Quantile(1), sorted.back());
  EXPECT_EQ(histogram.max(), sorted.back());
}

TEST(LogHistogramTest, BinsHoldAllNumbersInOrder) {
  Bins histogram;
  for (uint64_t number = 0; number < 3000; ++number) histogram.Add(number);
  uint64_t seen = 0;
  int64_t last_end = -1;
  histogram.ForEachBin([&](uint64_t end, uint64_t count) {
    EXPECT_GT(static_cast<int64_t>(end), last_end);
    seen += count;
    EXPECT_EQ(seen, std::min<uint64_t>(end + 1, 3000));  // all numbers up to the bin's end
    last_end = static_cast<int64_t>(end);
  });
  EXPECT_EQ(seen, 3000u);
}

TEST(LogHistogramTest, MergedAndSubtractedNumbersAreThoseOfBoth) {
  Bins first;
  Bins second;
  Bins both;
  for (uint64_t number = 1; number < 1000; ++number) {
    (number % 3 == 0 ? first : second).Add(number * 977);
    both.Add(number * 977);
  }
  Bins merged = first;
  merged.Merge(second);
  EXPECT_EQ(merged.count(), both.count());
  for (const double fraction : {0.1, 0.5, 0.99, 1.0}) {
    EXPECT_EQ(merged.Quantile(fraction), both.Quantile(fraction));
  }
  merged.Subtract(first);
  EXPECT_EQ(merged.count(), second.count());
  EXPECT_EQ(merged.Quantile(0.5), second.Quantile(0.5));
}

TEST(LogHistogramTest, AnyNumberHasItsPlace) {
  Bins histogram;
  for (const uint64_t number : {uint64_t{0}, uint64_t{1} << 44, ~uint64_t{0}}) {
    histogram.Add(number);
  }
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_EQ(histogram.max(), (uint64_t{1} << 44) - 1);
  EXPECT_EQ(histogram.Quantile(0), 0u);
}

}  // namespace
}  // namespace millrace
