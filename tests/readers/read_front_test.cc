#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "readers/read_front_internal.h"
#include "readers/record_source.h"
#include "readers/unique_fd.h"
#include "tests/readers/temp_files.h"

namespace millrace::readers {
namespace {

constexpr uint64_t kPiece = uint64_t{64} << 10;

class ReadFrontTest : public testing::Test {
 protected:
  ReadFrontTest() {
    std::string bytes(64 * kPiece, '\0');
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

  bool IsInPageCache(uint64_t piece) const {
    std::vector<std::byte> bytes(kPiece);
    const iovec part = {bytes.data(), bytes.size()};
    return ::preadv2(fd_.get(), &part, 1, static_cast<off_t>(piece * kPiece), RWF_NOWAIT) ==
           static_cast<ssize_t>(kPiece);
  }

  const TempFolder folder_;
  UniqueFd fd_;
};

TEST_F(ReadFrontTest, InOrderOnlyWhatTheFrontHasReachedMayBeLookedFor) {
  ReadFront front(fd_.get());
  EXPECT_FALSE(Announce(front, 0));
  EXPECT_FALSE(Announce(front, 1));
  Reach(front, 0);
  EXPECT_TRUE(IsInPageCache(0));
  EXPECT_TRUE(Announce(front, 0));
  EXPECT_TRUE(Announce(front, 1)) << "what was announced is brought too";
  EXPECT_TRUE(IsInPageCache(1));
  EXPECT_FALSE(Announce(front, 2));
  front.Found(2 * kPiece, 3 * kPiece);
  EXPECT_TRUE(Announce(front, 2)) << "what was found moves the front";
  EXPECT_FALSE(Announce(front, 3));
}

TEST_F(ReadFrontTest, ReadsAtRandomAreLeftAlone) {
  ReadFront front(fd_.get());
  constexpr uint64_t kFar = 1000;  // pieces
  for (const uint64_t piece : {5 * kFar, kFar, 9 * kFar, 2 * kFar, 7 * kFar}) {
    EXPECT_TRUE(Announce(front, piece)) << piece;
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
  Reach(front, 0);
  constexpr uint64_t kFar = 1000;
  EXPECT_TRUE(Announce(front, kFar));
  EXPECT_TRUE(Announce(front, kFar + 1));
  EXPECT_FALSE(Announce(front, kFar + 2)) << "three reads side by side are an order";
  EXPECT_TRUE(Announce(front, 0)) << "the next epoch";
}

TEST_F(ReadFrontTest, BehindTheEndAndWithoutAFileNobodyWaits) {
  ReadFront at_end(fd_.get());
  for (const uint64_t piece : {62, 63, 64, 65}) Announce(at_end, piece);
  Reach(at_end, 65);
  ReadFront closed(-1);
  Announce(closed, 0);
  Reach(closed, 0);
  EXPECT_TRUE(Announce(closed, 2)) << "it does not lead where it cannot";
}

TEST_F(ReadFrontTest, ThreadsThatShareAFileGetItsBytes) {
  ::fsync(fd_.get());
  ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
  const auto file = OpenFile(path());
  ASSERT_TRUE(file.ok()) << file.status();
  constexpr uint64_t kThreads = 4;
  const auto read = [&](uint64_t first) {
    std::vector<std::byte> bytes(kPiece);
    for (uint64_t piece = first; piece < 64; piece += kThreads) {
      if (!(*file)->TryReadAt(piece * kPiece, bytes)) {
        ASSERT_TRUE(ReadFully(**file, piece * kPiece, bytes).ok());
      }
      EXPECT_EQ(bytes, std::vector(kPiece, std::byte{static_cast<unsigned char>(piece)})) << piece;
    }
  };
  std::array<std::thread, kThreads> threads;
  for (uint64_t i = 0; i < kThreads; ++i) threads[i] = std::thread(read, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millrace::readers
