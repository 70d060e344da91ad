#include "base/simd.h"

#include <gtest/gtest.h>

// That the limit binds is tests/pipeline/open/simd_level_test.cc's.

namespace millrace {
namespace {

TEST(SimdTest, OnlyTheNamesOfLevelsLimit) {
  EXPECT_EQ(ParseSimdLimit("none"), SimdLevel::kNone);
  EXPECT_EQ(ParseSimdLimit("sse4.2"), SimdLevel::kSse42);
  EXPECT_EQ(ParseSimdLimit("avx2"), SimdLevel::kAvx2);
  for (const char* const name : {"avx512", "", "NONE", "none ", "avx", "sse2"}) {
    EXPECT_EQ(ParseSimdLimit(name), SimdLevel::kAvx512) << name;
  }
}

}  // namespace
}  // namespace millrace
