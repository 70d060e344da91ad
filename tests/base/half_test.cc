#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace millrace {
namespace {

// Calls `check` with floats on both sides of every tie: each upper half with the lower halves that
// decide how it is rounded.
template <typename Check>
void ForManyFloats(const Check& check) {
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x3000,
                                 0x5000, 0x7FFF, 0x8000, 0x8001, 0xF000, 0xF001, 0xFFFF}) {
      check(std::bit_cast<float>(upper << 16 | lower));
    }
  }
}

TEST(HalfTest, EveryHalfBecomesTheCompilersFloatAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const auto want = static_cast<float>(std::bit_cast<_Float16>(half.bits));
    const float got = ToFloat(half);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      EXPECT_TRUE(std::isnan(ToFloat(ToHalf(got)))) << bits;
      continue;
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << bits;
    EXPECT_EQ(ToHalf(got).bits, bits);
  }
}

TEST(HalfTest, FloatsAreRoundedAsTheCompilerDoes) {
  ForManyFloats([](float value) {
    const auto want = static_cast<_Float16>(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(ToFloat(ToHalf(value))));
    } else {
      EXPECT_EQ(ToHalf(value).bits, std::bit_cast<uint16_t>(want)) << value;
    }
  });
}

TEST(BFloatTest, IsTheUpperHalfOfItsFloatAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat value{static_cast<uint16_t>(bits)};
    EXPECT_EQ(std::bit_cast<uint32_t>(ToFloat(value)), bits << 16);
    if (std::isnan(ToFloat(value))) continue;
    EXPECT_EQ(ToBFloat(ToFloat(value)).bits, bits);
  }
}

// By distance: of the two neighbours the nearer, of two that are as near the even one. Behind the
// largest stands 2^128 where the infinity is.
TEST(BFloatTest, FloatsBecomeTheNearestTiesToEven) {
  const auto real = [](uint32_t bits) {
    const bool infinite = (bits & 0x7FFF) == 0x7F80;
    const double value = infinite ? std::copysign(0x1p128, (bits & 0x8000) != 0 ? -1.0 : 1.0)
                                  : std::bit_cast<float>(bits << 16);
    return value;
  };
  ForManyFloats([&](float value) {
    const uint32_t got = ToBFloat(value).bits;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(ToFloat(BFloat{static_cast<uint16_t>(got)})));
      return;
    }
    const uint32_t down = std::bit_cast<uint32_t>(value) >> 16;
    if (std::isinf(value)) {
      EXPECT_EQ(got, down);
      return;
    }
    const double below = std::abs(value - real(down));
    const double above = std::abs(real(down + 1) - value);
    const bool up = above < below || (above == below && (down & 1) != 0);
    EXPECT_EQ(got, down + (up ? 1 : 0)) << value;
  });
}

}  // namespace
}  // namespace millrace
