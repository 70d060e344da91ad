#include "base/loaded_library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/messages.h"

namespace millrace {
namespace {

absl::StatusOr<LoadedLibrary> Load(const char* file) {
  return LoadedLibrary::Load(file, "water needs a pump", "buy one");
}

TEST(LoadedLibraryTest, ItsFunctionsAreFound) {
  const auto library = Load("libc.so.6");
  ASSERT_TRUE(library.ok()) << library.status();
  decltype(&::getpid) function = nullptr;
  ASSERT_TRUE(library->Find("getpid", function).ok());
  EXPECT_EQ(function(), ::getpid());
}

TEST(LoadedLibraryTest, OneThatIsNotThereIsNamedWithTheNeedAndTheRemedy) {
  EXPECT_MESSAGE(Load("libno-such-pump.so.4"), absl::StatusCode::kFailedPrecondition);
}

TEST(LoadedLibraryTest, AFunctionThatItLacksIsNamedAndLeftAlone) {
  const auto library = Load("libc.so.6");
  ASSERT_TRUE(library.ok()) << library.status();
  decltype(&::getpid) function = &::getppid;
  EXPECT_MESSAGE(library->Find("pump_water", function), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(function, &::getppid);
}

}  // namespace
}  // namespace millrace
