#include "pipeline/run/read_buffer.h"

#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kKiB = size_t{1} << 10;

TEST(ReadBufferTest, AThreadUsesAgainWhatItFreedLast) {
  for (const size_t bytes : {1 * kKiB, 300 * kKiB}) {
    const std::byte* const first = MakeReadBuffer(bytes).get();
    const ReadBuffer second = MakeReadBuffer(bytes);
    EXPECT_EQ(second.get(), first) << bytes;
  }
}

TEST(ReadBufferTest, OnesThatAreHeldAreApart) {
  constexpr size_t kBytes = 200 * kKiB;
  const ReadBuffer first = MakeReadBuffer(kBytes);
  const ReadBuffer second = MakeReadBuffer(kBytes);
  std::memset(first.get(), 1, kBytes);
  std::memset(second.get(), 2, kBytes);
  EXPECT_EQ(first[0], std::byte{1});
  EXPECT_EQ(first[kBytes - 1], std::byte{1});
}

TEST(ReadBufferTest, SoManyAreKept) {
  std::thread([] {  // which has kept nothing yet
    std::vector<const std::byte*> freed;
    {
      std::vector<ReadBuffer> buffers;
      for (int i = 0; i < 17; ++i) {
        buffers.push_back(MakeReadBuffer(256 * kKiB));
        freed.push_back(buffers.back().get());
      }
      const ReadBuffer large = MakeReadBuffer(4096 * kKiB);  // which is not kept
      for (ReadBuffer& buffer : buffers) buffer.reset();
    }
    std::vector<ReadBuffer> again;
    for (int i = 16; i > 0; --i) {
      again.push_back(MakeReadBuffer(200 * kKiB));
      EXPECT_EQ(again.back().get(), freed[i]) << i;
    }
  })
      .join();
}

// Freed when the spares of the main thread are no more: the sanitizers' builds would tell.
std::vector<ReadBuffer>& OutlivesItsThread() {
  static std::vector<ReadBuffer> buffers;
  return buffers;
}

TEST(ReadBufferTest, MayOutliveItsThread) {
  OutlivesItsThread().push_back(MakeReadBuffer(100 * kKiB));
  OutlivesItsThread().push_back(MakeReadBuffer(0));
  MakeReadBuffer(100 * kKiB).reset();
  EXPECT_NE(OutlivesItsThread()[1].get(), nullptr);
}

TEST(ReadBufferTest, OneThatIsTooSmallIsNotTaken) {
  MakeReadBuffer(64 * kKiB).reset();
  constexpr size_t kBytes = 400 * kKiB;
  const ReadBuffer buffer = MakeReadBuffer(kBytes);
  std::memset(buffer.get(), 1, kBytes);
  EXPECT_EQ(buffer[kBytes - 1], std::byte{1});
}

TEST(ReadBufferTest, AMappedOneIsNotTakenForASmallRun) {
  std::thread([] {  // which has kept nothing yet
    const std::byte* const large = MakeReadBuffer(2048 * kKiB).get();
    EXPECT_NE(MakeReadBuffer(100 * kKiB).get(), large);
    EXPECT_EQ(MakeReadBuffer(600 * kKiB).get(), large);
  })
      .join();
}

TEST(ReadBufferTest, IsFreedOnAnotherThread) {
  ReadBuffer buffer = MakeReadBuffer(300 * kKiB);
  const std::byte* const memory = buffer.get();
  std::thread([&] {
    buffer.reset();
    EXPECT_EQ(MakeReadBuffer(300 * kKiB).get(), memory);
  }).join();
}

}  // namespace
}  // namespace millrace::pipeline
