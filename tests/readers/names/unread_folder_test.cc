// A folder whose names end in an error of the system: what there is behind it must not be left out.
// The program has a readdir of its own.
#include <dirent.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "readers/expand_files.h"
#include "tests/temp_files.h"
#include "tests/temp_folder.h"

namespace {

// The entries that are read before the system fails.
std::atomic<int> entries_left = std::numeric_limits<int>::max();

}  // namespace

extern "C" dirent* readdir(DIR* folder) {
  static auto* const next = reinterpret_cast<dirent* (*)(DIR*)>(::dlsym(RTLD_NEXT, "readdir"));
  if (--entries_left >= 0) return next(folder);
  errno = EIO;
  return nullptr;
}

namespace millrace::readers {
namespace {

TEST(UnreadFolderTest, AnErrorInTheMiddleIsNotTheEnd) {
  const TempFolder folder;
  for (const char* name : {"a-0.tfrecord", "a-1.tfrecord", "a-2.tfrecord", "a-3.tfrecord"}) {
    WriteFile(folder / name, "");
  }
  const std::string pattern = folder / "*.tfrecord";
  const auto whole = ExpandFiles(std::vector{pattern});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->size(), 4u);

  constexpr int kAll = 6;  // with "." and ".."
  for (int count = 0; count < kAll; ++count) {
    entries_left = count;
    const absl::Status status = ExpandFiles(std::vector{pattern}).status();
    entries_left = std::numeric_limits<int>::max();
    EXPECT_FALSE(status.ok()) << count;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(pattern)) << count;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("Input/output error")) << count;
  }
}

}  // namespace
}  // namespace millrace::readers
