#include "base/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

TEST(Grouped, HasACommaBeforeEachThreeDigits) {
  EXPECT_EQ(Grouped(int64_t{0}), "0");
  EXPECT_EQ(Grouped(int64_t{999}), "999");
  EXPECT_EQ(Grouped(int64_t{1000}), "1,000");
  EXPECT_EQ(Grouped(int64_t{25'557'032}), "25,557,032");
  EXPECT_EQ(Grouped(int64_t{-999}), "-999");
  EXPECT_EQ(Grouped(int64_t{-1000}), "-1,000");
  EXPECT_EQ(Grouped(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(Grouped(std::numeric_limits<uint64_t>::max()), "18,446,744,073,709,551,615");
}

}  // namespace
}  // namespace millrace
