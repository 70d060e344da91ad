#include "readers/file/read_front.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "readers/open_file.h"
#include "tests/temp_files.h"

namespace millrace::readers {
namespace {

constexpr uint64_t kPiece = uint64_t{64} << 10;
constexpr uint64_t kPieces = 64;

class ReadFrontTest : public testing::Test {
 protected:
  ReadFrontTest() {
    std::string bytes(kPieces * kPiece, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i / kPiece);
    WriteFile(path(), bytes);
    fd_ = UniqueFd(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  }

  std::string path() const { return folder_ / "f"; }

  static bool Announce(ReadFront& front, uint64_t piece) {
    return front.Announce(piece * kPiece, (piece + 1) * kPiece);
  }
  static void Reach(ReadFront& front, uint64_t piece) {
    front.Reach(piece * kPiece, (piece + 1) * kPiece);
  }
  static void Missed(ReadFront& front, uint64_t piece) {
    front.Missed(piece * kPiece, (piece + 1) * kPiece);
  }

  // False: the file system keeps what it has in memory.
  bool DropFromPageCache() const {
    ::fsync(fd_.get());
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
    return NumCached() == 0;
  }
  uint64_t NumCached() const {
    uint64_t count = 0;
    for (uint64_t piece = 0; piece < kPieces; ++piece) count += IsCached(piece);
    return count;
  }
  bool IsCached(uint64_t piece) const {
    void* const map = ::mmap(nullptr, kPiece, PROT_READ, MAP_SHARED, fd_.get(),
                             static_cast<off_t>(piece * kPiece));
    std::vector<unsigned char> pages(kPiece / static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
    EXPECT_EQ(::mincore(map, kPiece, pages.data()), 0);
    ::munmap(map, kPiece);
    return (pages.front() & 1) != 0;
  }

  const TempFolder folder_;
  UniqueFd fd_;
};

TEST_F(ReadFrontTest, WhatIsAnnouncedIsBroughtAndNothingBeyondTheKernelsOwnWindow) {
  if (!DropFromPageCache()) GTEST_SKIP() << "nothing leaves this file system's memory";
  ReadFront front(fd_.get());
  Announce(front, 0);
  Missed(front, 0);
  EXPECT_FALSE(Announce(front, 1));
  Reach(front, 0);
  EXPECT_TRUE(IsCached(0));
  EXPECT_TRUE(IsCached(1)) << "it was announced too";
  EXPECT_TRUE(Announce(front, 0));
  EXPECT_TRUE(Announce(front, 1));
}

TEST_F(ReadFrontTest, ReadsThatWereNotAnnouncedFetchNothing) {
  if (!DropFromPageCache()) GTEST_SKIP() << "nothing leaves this file system's memory";
  ReadFront front(fd_.get());
  Announce(front, 0);
  Missed(front, 0);
  Reach(front, kPieces - 1);
  EXPECT_FALSE(IsCached(kPieces - 1));
}

TEST_F(ReadFrontTest, AnOrderMayBeAnnouncedFarAhead) {
  ReadFront front(fd_.get());
  Announce(front, 0);
  Missed(front, 0);
  for (uint64_t piece = 1; piece < 4000; ++piece) {  // 250 MiB
    ASSERT_FALSE(Announce(front, piece)) << piece;
  }
}

TEST_F(ReadFrontTest, WhereTheFileIsCachedLooksAreAllowedAgain) {
  ReadFront front(fd_.get());
  Announce(front, 0);
  Missed(front, 0);
  uint64_t piece = 1;
  // A lead that had to wait for a page says nothing; all of them are there.
  while (piece < kPieces && !Announce(front, piece)) Reach(front, piece++);
  ASSERT_LT(piece, kPieces);
  front.Found(piece * kPiece, (piece + 1) * kPiece);
  EXPECT_TRUE(Announce(front, piece + 1));
}

TEST_F(ReadFrontTest, ASecondEpochGoesThroughTheFrontToo) {
  ReadFront front(fd_.get());
  for (uint64_t piece = 0; piece < kPieces; ++piece) {
    Announce(front, piece);
    Reach(front, piece);
  }
  if (!DropFromPageCache()) GTEST_SKIP() << "nothing leaves this file system's memory";
  EXPECT_TRUE(Announce(front, 0)) << "the front has passed it";
  Missed(front, 0);
  EXPECT_FALSE(Announce(front, 1));
  Reach(front, 1);
  EXPECT_TRUE(IsCached(0));
  EXPECT_TRUE(IsCached(1));
}

TEST_F(ReadFrontTest, ReadsAtRandomAreLeftAlone) {
  ReadFront front(fd_.get());
  constexpr uint64_t kFar = 1000;  // pieces
  for (const uint64_t piece : {5 * kFar, kFar, 9 * kFar, 2 * kFar, 7 * kFar}) {
    EXPECT_TRUE(Announce(front, piece)) << piece;
    Missed(front, piece);
    Reach(front, piece);
  }
  // Near each other, but of what they span they want little.
  for (const uint64_t piece : {100, 220, 110, 180, 105, 240}) {
    EXPECT_TRUE(Announce(front, piece)) << piece;
  }
}

TEST_F(ReadFrontTest, AnotherOrderMayBeginAnywhere) {
  ReadFront front(fd_.get());
  Announce(front, 0);
  Missed(front, 0);
  Reach(front, 0);
  constexpr uint64_t kFar = 1000;
  EXPECT_TRUE(Announce(front, kFar));
  EXPECT_TRUE(Announce(front, kFar + 1));
  EXPECT_FALSE(Announce(front, kFar + 3)) << "three reads side by side are an order";
  EXPECT_TRUE(Announce(front, 0)) << "the next epoch";
}

TEST_F(ReadFrontTest, BehindTheEndAndWithoutAFileNobodyWaits) {
  ReadFront at_end(fd_.get());
  for (const uint64_t piece : {kPieces - 2, kPieces - 1, kPieces, kPieces + 1}) {
    Announce(at_end, piece);
  }
  Reach(at_end, kPieces + 1);
  ReadFront closed(-1);
  for (uint64_t piece = 0; piece < 10; ++piece) {
    Announce(closed, piece);
    Missed(closed, piece);
    Reach(closed, piece);
  }
}

TEST_F(ReadFrontTest, ThreadsThatShareAFileGetItsBytes) {
  constexpr uint64_t kThreads = 4;
  const auto file = OpenFile(path());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto read = [&](uint64_t first) {
    std::vector<std::byte> bytes(kPiece);
    for (uint64_t piece = first; piece < kPieces; piece += kThreads) {
      if (!(*file)->TryReadAt(piece * kPiece, bytes)) {
        ASSERT_TRUE(ReadFully(**file, piece * kPiece, bytes).ok());
      }
      EXPECT_EQ(bytes, std::vector(kPiece, std::byte{static_cast<unsigned char>(piece)})) << piece;
    }
  };
  for (int epoch = 0; epoch < 3; ++epoch) {
    DropFromPageCache();
    std::array<std::thread, kThreads> threads;
    for (uint64_t i = 0; i < kThreads; ++i) threads[i] = std::thread(read, i);
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace millrace::readers
