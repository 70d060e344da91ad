#include "cli/page/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

namespace millrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Histogram Of(const std::vector<double>& values) {
  ValueRange range;
  for (const double value : values) range.Add(value);
  Histogram histogram(range);
  for (const double value : values) histogram.Count(value);
  return histogram;
}

TEST(HistogramTest, FewWholeNumbersHaveABarEach) {
  EXPECT_THAT(Of({-1, 2, 2, 0}).bars(), ElementsAre(1, 1, 0, 2));
  EXPECT_THAT(Of({7, 7}).bars(), ElementsAre(2));
  EXPECT_THAT(Of({0, 23}).bars(), testing::SizeIs(24));
}

TEST(HistogramTest, OtherNumbersShareBarsOfEqualWidth) {
  const Histogram histogram = Of({0, 0.5, 23.5, 24, 12});
  EXPECT_EQ(histogram.bars().size(), Histogram::kMaxBars);
  EXPECT_EQ(histogram.bars().front(), 2);
  EXPECT_EQ(histogram.bars().back(), 2);
  EXPECT_EQ(histogram.bars()[12], 1);
  EXPECT_THAT(Of({0.5}).bars(), ElementsAre(1));
}

TEST(HistogramTest, NoNumberIsTooLargeAndOthersAreCountedApart) {
  const double most = std::numeric_limits<double>::max();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Histogram wide = Of({-most, most, 0, nan, infinity, -infinity});
  EXPECT_EQ(std::accumulate(wide.bars().begin(), wide.bars().end(), 0), 3);
  EXPECT_EQ(wide.bars().front(), 1);
  EXPECT_EQ(wide.bars().back(), 1);
  EXPECT_THAT(wide.ToHtml("x"), HasSubstr("3 values"));
  EXPECT_THAT(wide.ToHtml("x"), HasSubstr("; 3 not finite"));
  EXPECT_THAT(Of({nan}).bars(), IsEmpty());
  EXPECT_THAT(Of({}).ToHtml("<x>"), HasSubstr("&lt;x&gt;: 0 values</fig"));
}

}  // namespace
}  // namespace millrace::cli
