#include "trainer/optimizer/square_sum.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace millrace::trainer {
namespace {

using Sum = std::array<double, 2>;

Sum SumOf(std::span<const float> values) {
  Sum sum = {};
  AddSquares(values, LargestMagnitude(values), values.size(), sum.data());
  return sum;
}

// Values of magnitudes from 2^-`spread` to 1.
std::vector<float> Draw(size_t count, int spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const float magnitude = static_cast<float>(random() % 1000) / 1000.0f;
    value = std::ldexp(random() % 2 == 0 ? magnitude : -magnitude,
                       -static_cast<int>(random() % static_cast<uint64_t>(spread + 1)));
  }
  return values;
}

TEST(SquareSumTest, TheNormIsThatOfTheFormula) {
  for (const int spread : {0, 10, 60}) {
    const std::vector<float> values = Draw(10'000, spread, 1);
    long double sum = 0;
    for (const float value : values) sum += static_cast<long double>(value) * value;
    const Sum squares = SumOf(values);
    EXPECT_NEAR(NormOf(squares.data()) / std::sqrt(static_cast<double>(sum)), 1, 1e-15) << spread;
  }
  EXPECT_EQ(NormOf(SumOf(std::vector<float>{3, -4}).data()), 5);
  EXPECT_EQ(NormOf(SumOf(std::vector<float>{-7}).data()), 7);
}

TEST(SquareSumTest, AGuessThatRoundsAlikeGivesTheBitsOfTheLargestMagnitude) {
  for (const size_t count : {1, 15, 2'048, 10'007}) {
    const std::vector<float> values = Draw(count, 10, 4);
    const double largest = LargestMagnitude(values);
    const Sum expected = SumOf(values);
    int alike = 0;
    for (const double factor : {0.25, 0.5, 0.8, 1.0, 1.2, 2.0, 4.0}) {
      Sum sum = {};
      EXPECT_EQ(LargestAndSquares(values, factor * largest, count, sum.data()), largest) << count;
      if (!SameRounding(factor * largest, largest, count)) continue;
      ++alike;
      EXPECT_EQ(sum, expected) << count << " values, guess times " << factor;
    }
    EXPECT_GE(alike, 1) << count;
    EXPECT_LT(alike, 7) << count;
  }
}

TEST(SquareSumTest, AnyPiecesInAnyOrderHaveTheBitsOfTheWhole) {
  std::mt19937_64 random(2);
  for (const int spread : {0, 10, 60}) {
    std::vector<float> values = Draw(5'003, spread, 3);
    const double largest = LargestMagnitude(values);
    const Sum whole = SumOf(values);
    for (int round = 0; round < 20; ++round) {
      std::ranges::shuffle(values, random);
      Sum pieces = {};
      for (size_t begin = 0; begin < values.size();) {
        const size_t size = std::min<size_t>(1 + random() % 700, values.size() - begin);
        Sum piece = {};
        AddSquares(std::span(values).subspan(begin, size), largest, values.size(), piece.data());
        pieces[0] += piece[0];
        pieces[1] += piece[1];
        begin += size;
      }
      ASSERT_EQ(pieces, whole) << spread;
    }
  }
}

TEST(SquareSumTest, ExtremesAreNoSpecialCase) {
  const std::vector<float> zeros(5, 0);
  EXPECT_EQ(NormOf(SumOf(zeros).data()), 0);
  EXPECT_EQ(NormOf(SumOf({}).data()), 0);
  const std::vector<float> small(4, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(NormOf(SumOf(small).data()), 2.0 * std::numeric_limits<float>::denorm_min());
  const std::vector<float> large(4, std::numeric_limits<float>::max());
  EXPECT_EQ(NormOf(SumOf(large).data()), 2.0 * std::numeric_limits<float>::max());
}

TEST(SquareSumTest, WhatIsNotFiniteIsNoNumber) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    for (const size_t at : {0, 3, 9}) {
      std::vector<float> values(10, 1);
      values[at] = bad;
      EXPECT_TRUE(std::isnan(NormOf(SumOf(values).data()))) << bad << at;
    }
  }
}

}  // namespace
}  // namespace millrace::trainer
