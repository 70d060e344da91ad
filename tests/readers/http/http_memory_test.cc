#include <gtest/gtest.h>

#include <cstdlib>
#include <span>
#include <string>

#include "base/caught.h"
#include "readers/http/file.h"
#include "tests/failing_new.h"
#include "tests/readers/http/http_server.h"

// Memory that ends while bytes are read over HTTP, on the thread that reads.

namespace millrace::readers {
namespace {

// Fills `out` from the begin of the file, with so many allocations on this thread.
absl::StatusOr<size_t> ReadWith(int allocations, const RandomAccessFile& file, std::string& out) {
  const auto bytes = std::as_writable_bytes(std::span(out));
  return Caught([&] {
    const AllocationsLeft left(allocations);
    return file.ReadAt(0, bytes);
  });
}

// What a read began before it failed is no block that others wait for, and none that they keep.
TEST(HttpMemoryTest, AReadThatThereIsNoMemoryForLeavesTheOthersAsTheyWere) {
  if (!kNewFails) GTEST_SKIP() << "this build's operator new cannot fail";
  ::setenv("no_proxy", "127.0.0.1", 1);
  const std::string text(1000, 'x');
  bool failed = false;
  for (int allocations = 0;; ++allocations) {
    const ScriptServer server({Good(text)});
    const std::string url = server.Url("a");
    HttpOptions options;
    options.block_bytes = 100;
    options.cache_bytes = 200;
    options.read_ahead_blocks = 1;
    const auto files = HttpFiles::Make(options);
    ASSERT_TRUE(files.ok()) << files.status();
    const auto opened = (*files)->Open({&url, 1});
    ASSERT_TRUE(opened.ok()) << opened.status();
    const RandomAccessFile& file = *opened->front().file;
    std::string some(100, '?');
    const bool good = ReadWith(allocations, file, some).ok();
    failed |= !good;
    std::string all(1000, '?');
    const auto read = ReadWith(-1, file, all);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(all, text) << allocations;
    if (good && allocations > 40) break;
  }
  EXPECT_TRUE(failed);
}

}  // namespace
}  // namespace millrace::readers
