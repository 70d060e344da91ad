#include "readers/file/block_cache.h"

#include <random>

#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

constexpr size_t kBlock = BlockCache::kBlockBytes;

std::string Noise(size_t size) {
  std::mt19937 random(5);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

absl::StatusOr<std::string> Read(const RandomAccessFile& file, uint64_t offset, size_t size) {
  std::string out(size, '?');
  const auto got = file.ReadAt(offset, std::as_writable_bytes(std::span(out)));
  if (!got.ok()) return got.status();
  return out.substr(0, *got);
}

TEST(BlockCacheTest, ReadsAnywhereAreTheFilesBytes) {
  const std::string one = Noise(5 * kBlock + 77), two = Noise(3 * kBlock);
  const auto cache = std::make_shared<BlockCache>(2 * kBlock);  // fewer than there are blocks
  const auto first = cache->Wrap(std::make_shared<FakeFile>(one), 0);
  const auto second = cache->Wrap(std::make_shared<FakeFile>(two), 1);
  std::mt19937 random(6);
  for (int i = 0; i < 2000; ++i) {
    const bool is_first = random() % 2 == 0;
    const std::string& bytes = is_first ? one : two;
    const size_t offset = random() % (bytes.size() + 10);
    const size_t size = i % 100 == 0 ? kBlock + 1 : random() % 300;
    if (offset > bytes.size()) continue;
    const auto got = Read(is_first ? *first : *second, offset, size);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_TRUE(*got == bytes.substr(offset, size)) << offset << " " << size;
  }
}

TEST(BlockCacheTest, AWindowThatFitsIsReadOnceBlockByBlock) {
  const std::string bytes = Noise(8 * kBlock);
  const auto file = std::make_shared<FakeFile>(bytes);
  const auto cached = std::make_shared<BlockCache>(8 * kBlock)->Wrap(file, 3);
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const size_t offset = random() % (bytes.size() - 100);
    ASSERT_TRUE(*Read(*cached, offset, 100) == bytes.substr(offset, 100));
  }
  EXPECT_LE(file->num_reads(), 8);
}

TEST(BlockCacheTest, AStragglerIsReadAloneAndDisplacesNothing) {
  const std::string bytes = Noise(8 * kBlock);
  const auto file = std::make_shared<FakeFile>(bytes);
  const auto cached = std::make_shared<BlockCache>(2 * kBlock)->Wrap(file, 0);
  const auto read = [&](size_t offset) {
    EXPECT_TRUE(*Read(*cached, offset, 100) == bytes.substr(offset, 100));
  };
  read(4 * kBlock);      // fetches block 4
  read(0);               // of a block in the same slot: the record alone
  read(4 * kBlock + 7);  // still there
  read(2 * kBlock);      // another one
  read(4 * kBlock + 8);  // and still there
  EXPECT_EQ(file->num_reads(), 3);
  read(6 * kBlock);        // the window moves on: asked for twice
  read(6 * kBlock + 500);  // with block 4 not at all in between, block 6 takes its place
  read(6 * kBlock + 1000);
  EXPECT_EQ(file->num_reads(), 5);
}

TEST(BlockCacheTest, RecordsBesideDamagedBytesAreReadAlone) {
  const std::string bytes = Noise(2 * kBlock);
  const auto file = std::make_shared<FakeFile>(bytes);
  file->FailFrom(kBlock + 500);
  const auto cached = std::make_shared<BlockCache>(4 * kBlock)->Wrap(file, 0);
  EXPECT_TRUE(*Read(*cached, kBlock + 100, 300) == bytes.substr(kBlock + 100, 300));
  EXPECT_FALSE(Read(*cached, kBlock + 450, 100).ok());
  EXPECT_TRUE(*Read(*cached, kBlock - 50, 100) == bytes.substr(kBlock - 50, 100));
}

}  // namespace
}  // namespace millrace::readers
