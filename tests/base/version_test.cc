#include "base/version.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

namespace millrace {
namespace {

TEST(Version, IsThreeNumbers) {
  EXPECT_EQ(std::ranges::count(Version(), '.'), 2);
  EXPECT_TRUE(std::ranges::all_of(
      Version(), [](char c) { return c == '.' || std::isdigit(static_cast<unsigned char>(c)); }));
}

TEST(Version, CommitIsHexOrUnknown) {
  ASSERT_FALSE(Commit().empty());
  EXPECT_TRUE(Commit() == "unknown" || std::ranges::all_of(Commit(), [](char c) {
                return std::isxdigit(static_cast<unsigned char>(c));
              }));
}

}  // namespace
}  // namespace millrace
