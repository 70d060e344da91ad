#include "readers/http/libcurl.h"

#include <gtest/gtest.h>

#include "tests/messages.h"

namespace millrace::readers {
namespace {

TEST(LibcurlTest, OneThatIsNotThereIsNamed) {
  const auto curl = LoadLibcurl("libno-such-curl.so.4");
  EXPECT_EQ(curl.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_MESSAGE(curl.status());
}

TEST(LibcurlTest, AFunctionThatItLacksIsNamed) {
  const auto curl = LoadLibcurl("libc.so.6");
  EXPECT_EQ(curl.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(curl.status().message().find("curl_easy_cleanup"), std::string::npos) << curl.status();
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
