#include "readers/http/libcurl.h"

#include <gtest/gtest.h>

#include "tests/messages.h"

namespace millrace::readers {
namespace {

TEST(LibcurlTest, OneThatIsNotThereIsNamed) {
  EXPECT_MESSAGE(LoadLibcurl("libno-such-curl.so.4"), absl::StatusCode::kFailedPrecondition);
}

TEST(LibcurlTest, AFunctionThatItLacksIsNamed) {
  EXPECT_MESSAGE(LoadLibcurl("libc.so.6"), absl::StatusCode::kFailedPrecondition);
}

TEST(LibcurlTest, TheSystemsIsLoadedOnce) {
  const auto first = SystemLibcurl();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = SystemLibcurl();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*first, *second);
}

}  // namespace
}  // namespace millrace::readers
