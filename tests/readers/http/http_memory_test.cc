#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <span>
#include <string>

#include "base/caught.h"
#include "readers/http/file.h"
#include "tests/readers/http/http_server.h"

// Memory that ends while bytes are read over HTTP. This program's operator new fails where the test
// says, on the thread that reads.

namespace {

thread_local int left = -1;  // allocations until all fail; negative: none does

void* Allocate(size_t size) {
  if (left == 0) throw std::bad_alloc();
  if (left > 0) --left;
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace millrace::readers {
namespace {

// Fills `out` from the begin of the file, with so many allocations on this thread.
absl::StatusOr<size_t> ReadWith(int allocations, const RandomAccessFile& file, std::string& out) {
  const auto bytes = std::as_writable_bytes(std::span(out));
  absl::StatusOr<size_t> read = Caught([&] {
    left = allocations;
    absl::StatusOr<size_t> got = file.ReadAt(0, bytes);
    left = -1;
    return got;
  });
  left = -1;
  return read;
}

// What a read began before it failed is no block that others wait for, and none that they keep.
TEST(HttpMemoryTest, AReadThatThereIsNoMemoryForLeavesTheOthersAsTheyWere) {
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
