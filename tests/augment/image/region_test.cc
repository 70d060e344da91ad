#include "augment/image/region.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::augment {
namespace {

// More attempts draw the same regions and then more of them: what the first gave is not changed.
TEST(DrawCrop, AttemptsEndInTheCentreAndNeverChangeAnEarlierRegion) {
  const Region centre{0, 30, 30, 40};  // the largest of aspect 4:3 in 30 x 100
  int early = 0, late = 0;
  for (uint64_t record = 0; record < 200; ++record) {
    const auto draw = [&](int max_attempts) {
      RandomStream random({.seed = 5, .op = 6, .epoch = 0, .record = record});
      return DrawCrop(30, 100, {0.3f, 1}, {3.0f / 4, 4.0f / 3}, random, max_attempts);
    };
    const Region one = draw(1), ten = draw(10), many = draw(1000);
    if (one == centre && ten != centre) ++late;
    if (one != centre) {
      ++early;
      EXPECT_EQ(one, ten);
    }
    if (ten != centre) {
      EXPECT_EQ(ten, many);
    }
  }
  EXPECT_GT(early, 5);
  EXPECT_GT(late, 20);
}

TEST(DrawCrop, DrawsAreaAspectTopLeftInThisOrder) {
  // {1, 1} for both leaves nothing to the first two draws, which are made nonetheless.
  RandomStream random({.seed = 1, .op = 2, .epoch = 3, .record = 4});
  RandomStream mirror({.seed = 1, .op = 2, .epoch = 3, .record = 4});
  const Region region = DrawCrop(100, 50, {0.5f, 0.5f}, {1, 1}, random);
  mirror.NextDouble();
  mirror.NextDouble();
  const int64_t side = 50;  // sqrt(2500)
  const auto top = static_cast<int64_t>(mirror.Below(100 - side + 1));
  EXPECT_EQ(region, (Region{top, static_cast<int64_t>(mirror.Below(1)), side, side}));
}

TEST(DrawCrop, KnownRegionsStayForEver) {
  const Region known[] = {{30, 140, 305, 252}, {77, 61, 259, 325}, {0, 47, 375, 433}};
  for (uint64_t record = 0; record < std::size(known); ++record) {
    RandomStream random(
        {.seed = 7, .op = HashName("random_resized_crop"), .epoch = 1, .record = record});
    const Region region = DrawCrop(375, 500, {0.08f, 1}, {3.0f / 4, 4.0f / 3}, random);
    EXPECT_EQ(region, known[record])
        << region.top << ", " << region.left << ", " << region.height << ", " << region.width;
  }
}

TEST(DrawCrop, StatisticsAreThoseOfTheDistribution) {
  constexpr int kDraws = 20000;
  double area_sum = 0, log_sum = 0, left_sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    RandomStream random({.seed = 3, .op = 1, .epoch = 0, .record = static_cast<uint64_t>(i)});
    const Region region = DrawCrop(1000, 1000, {0.08f, 0.5f}, {3.0f / 4, 4.0f / 3}, random);
    ASSERT_GE(region.top, 0);
    ASSERT_LE(region.top + region.height, 1000);
    ASSERT_LE(region.left + region.width, 1000);
    const double area = static_cast<double>(region.height * region.width) / 1e6;
    const double ratio = static_cast<double>(region.width) / static_cast<double>(region.height);
    ASSERT_GT(area, 0.079);
    ASSERT_LT(area, 0.502);
    ASSERT_GT(ratio, 0.745);
    ASSERT_LT(ratio, 1.345);
    area_sum += area;
    log_sum += std::log(ratio);
    left_sum += static_cast<double>(region.left) / static_cast<double>(1000 - region.width + 1);
  }
  // Five standard errors of a uniform variable.
  const auto bound = [](double range) { return 5 * range / std::sqrt(12.0 * kDraws); };
  EXPECT_NEAR(area_sum / kDraws, 0.29, bound(0.42));
  EXPECT_NEAR(log_sum / kDraws, 0, bound(2 * std::log(4.0 / 3)));
  EXPECT_NEAR(left_sum / kDraws, 0.5, bound(1) + 0.001);
}

TEST(DrawCrop, FallsBackToTheCentreOfAdmissibleAspect) {
  RandomStream wide({.seed = 1}), tall({.seed = 2}), fit({.seed = 3});
  // No square of half the area or more fits into 10 x 1000.
  EXPECT_EQ(DrawCrop(10, 1000, {0.5f, 1}, {1, 2}, wide), (Region{0, 490, 10, 20}));
  EXPECT_EQ(DrawCrop(1000, 10, {0.5f, 1}, {0.5f, 1}, tall), (Region{490, 0, 20, 10}));
  EXPECT_EQ(DrawCrop(10, 11, {1, 1}, {1, 1.2f}, fit).width, 11);
}

}  // namespace
}  // namespace millrace::augment
