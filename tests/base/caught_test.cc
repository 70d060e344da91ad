#include "base/caught.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace millrace {
namespace {

TEST(Caught, ReturnsWhatTheWorkReturns) {
  EXPECT_TRUE(Caught([] {}).ok());
  EXPECT_EQ(Caught([] { return absl::AbortedError("x"); }), absl::AbortedError("x"));
  const auto value =
      Caught([]() -> absl::StatusOr<std::unique_ptr<int>> { return std::make_unique<int>(7); });
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(**value, 7);
}

TEST(Caught, MemoryAndThreadsThatAreNotThereAreExhausted) {
  EXPECT_EQ(Caught([] { throw std::bad_alloc(); }).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Caught([] { throw std::bad_array_new_length(); }).code(),
            absl::StatusCode::kResourceExhausted);
  const auto no_thread = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EQ(Caught([&] { throw std::system_error(no_thread); }).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(Caught, OtherExceptionsAreInternal) {
  const auto other = Caught([]() -> absl::StatusOr<int> { throw std::runtime_error("why"); });
  EXPECT_EQ(other.status(), absl::InternalError("exception: why"));
  EXPECT_EQ(Caught([] { throw 17; }), absl::InternalError("exception: not a std::exception"));
  const auto denied = std::make_error_code(std::errc::permission_denied);
  EXPECT_EQ(Caught([&] { throw std::system_error(denied); }).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace millrace
