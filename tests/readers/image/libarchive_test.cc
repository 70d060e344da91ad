#include "readers/image/libarchive.h"

#include <gtest/gtest.h>

#include "tests/messages.h"

namespace millrace::readers::internal {
namespace {

TEST(LibarchiveTest, OneThatIsNotThereIsNamed) {
  EXPECT_MESSAGE(LoadLibarchive("libno-such-archive.so.13"), absl::StatusCode::kFailedPrecondition);
}

TEST(LibarchiveTest, AFunctionThatItLacksIsNamed) {
  EXPECT_MESSAGE(LoadLibarchive("libc.so.6"), absl::StatusCode::kFailedPrecondition);
}

TEST(LibarchiveTest, TheSystemsIsLoadedOnce) {
  const auto first = SystemLibarchive();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = SystemLibarchive();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*first, *second);
}

}  // namespace
}  // namespace millrace::readers::internal
