#include "readers/container/record_index.h"

#include <xxhash.h>

#include <cstring>

#include "readers/file/index_key.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

constexpr size_t kIndexHeader = 104;

TEST(RecordIndexTest, SmallRecordsShareReadsAndLargePayloadsAreJumpedOver) {
  const FakeFile small(Frames(std::vector<std::string>(10'000, "0123456789")));  // 260 kB
  std::vector<uint64_t> begins;
  ASSERT_TRUE(WalkRecords(small, {}, begins).ok());
  EXPECT_EQ(begins.size(), 10'001u);
  EXPECT_EQ(begins.back(), small.size());
  EXPECT_LE(small.num_reads(), 2);

  const FakeFile large(Frames(std::vector<std::string>(5, std::string(1 << 20, 'x'))));
  ASSERT_TRUE(WalkRecords(large, {}, begins).ok());
  EXPECT_EQ(begins.size(), 6u);
  EXPECT_EQ(large.num_reads(), 5);
}

TEST(RecordIndexTest, ReadErrorsAreToldAndWhatCameBeforeIsKept) {
  FakeFile file(Frames(std::vector<std::string>(10, std::string(100'000, 'x'))));
  file.FailFrom(550'000);
  std::vector<uint64_t> begins;
  const absl::Status status = WalkRecords(file, {}, begins);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_GT(begins.size() - 1, 3u);
  EXPECT_LT(begins.size() - 1, 7u);
}

// An index of records of these lengths, in memory of its own.
ShardIndex IndexOf(const std::vector<uint64_t>& lengths) {
  std::vector<uint64_t> begins = {0};
  for (const uint64_t length : lengths) begins.push_back(begins.back() + length + 16);
  ShardIndex index;
  index.records =
      RecordIndex::Make(begins, kTfRecordFrames, std::make_shared<IndexMemory>()).value();
  index.lengths_digest = index.records.LengthsDigest();
  return index;
}

const IndexKey kKey = MakeIndexKey("/data/a", {70'077, 123'456'789}, Compression::kNone, 0);

std::string Encoded(const ShardIndex& index) {
  const std::vector<std::byte> bytes = EncodeIndex(index, kKey);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::StatusOr<ShardIndex> Read(const std::string& bytes, const IndexKey& key,
                                uint64_t framed_bytes) {
  return ReadIndex(FakeFile(bytes), key, kTfRecordFrames, framed_bytes,
                   std::make_shared<IndexMemory>());
}

TEST(RecordIndexTest, IndexOfNoRecordsIsEmpty) {
  const RecordIndex none;
  EXPECT_EQ(none.num_records(), 0u);
  EXPECT_EQ(none.end(), 0u);
  const ShardIndex empty = IndexOf({});
  EXPECT_EQ(empty.records.num_records(), 0u);
  EXPECT_EQ(Read(Encoded(empty), kKey, 0)->records.num_records(), 0u);
}

TEST(RecordIndexTest, EncodedIndexComesBackForItsKeyOnly) {
  const ShardIndex index = IndexOf({0, 1, 70'000, 12});
  const std::string bytes = Encoded(index);
  EXPECT_EQ(bytes.size(), kIndexHeader + 5 * 4);
  const auto back = Read(bytes, kKey, 70'077);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->records.num_records(), 4u);
  EXPECT_EQ(back->records.offset(3), 70'049u);
  EXPECT_EQ(back->records.length(2), 70'000u);
  EXPECT_EQ(back->records.longest(), 70'000u);
  EXPECT_EQ(back->lengths_digest, index.records.LengthsDigest());
  EXPECT_EQ(back->records.LengthsDigest(), index.records.LengthsDigest());
  for (const IndexKey& other :
       {MakeIndexKey("/data/b", kKey.stamp, Compression::kNone, 0),
        MakeIndexKey("/data/a", {70'078, 123'456'789}, Compression::kNone, 0),
        MakeIndexKey("/data/a", {70'077, 123'456'788}, Compression::kNone, 0),
        MakeIndexKey("/data/a", kKey.stamp, Compression::kGzip, 0),
        MakeIndexKey("/data/a", kKey.stamp, Compression::kNone, 1)}) {
    EXPECT_EQ(Read(bytes, other, 70'077).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(Read(bytes, kKey, 70'093).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Stores a number of 4 or 8 bytes into an index and makes its checksums right again.
std::string Forged(std::string bytes, size_t at, uint64_t value, size_t width) {
  std::memcpy(&bytes[at], &value, width);
  const auto seal = [&](size_t place, size_t first, size_t count) {
    const uint64_t sum = XXH3_64bits(&bytes[first], count);
    std::memcpy(&bytes[place], &sum, sizeof sum);
  };
  seal(80, kIndexHeader, bytes.size() - kIndexHeader);
  seal(96, 0, 96);
  return bytes;
}

TEST(RecordIndexTest, NumbersThatCannotBeAreRefusedThoughTheChecksumsHold) {
  const std::string good = Encoded(IndexOf({0, 1, 70'000, 12}));
  ASSERT_EQ(Forged(good, 56, 4, 8), good) << "sealed as the index itself is";
  const struct {
    size_t at;
    uint64_t value;
    size_t width;
  } cases[] = {
      {8, 1, 4},
      {12, 0, 4},
      {12, 8, 4},
      {56, 3, 8},
      {56, ~uint64_t{0}, 8},
      {64, 70'078, 8},
      {kIndexHeader + 16, 70'076, 4},
  };
  for (const auto& [at, value, width] : cases) {
    const auto back = Read(Forged(good, at, value, width), kKey, 70'077);
    ASSERT_FALSE(back.ok()) << at;
    EXPECT_MESSAGE(back.status()) << at;
  }
}

TEST(RecordIndexTest, NoLengthIsAboveTheLongest) {
  const std::string good = Encoded(IndexOf({0, 1, 70'000, 12}));
  const auto back = Read(Forged(good, kIndexHeader + 4, 0xffffffff, 4), kKey, 70'077);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->records.length(0), 70'000u) << "2^32 - 17 by its begin";
  EXPECT_EQ(back->records.length(1), 70'000u) << "less than nothing";
}

TEST(RecordIndexTest, AnIndexIsReadAtOnceAndTakesMemoryOnlyIfItIsGood) {
  const std::string good = Encoded(IndexOf(std::vector<uint64_t>(1000, 54)));
  const auto memory = std::make_shared<IndexMemory>();
  const std::byte* const free_end = memory->Peek(8).data() + 8;
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    const FakeFile file(bad);
    EXPECT_FALSE(ReadIndex(file, kKey, kTfRecordFrames, 70'000, memory).ok()) << at;
    EXPECT_EQ(file.num_reads(), 1) << at;
  }
  EXPECT_FALSE(ReadIndex(FakeFile(good), kKey, kTfRecordFrames, 70'001, memory).ok());
  EXPECT_EQ(memory->Peek(8).data() + 8, free_end);
  const FakeFile file(good);
  const auto index = ReadIndex(file, kKey, kTfRecordFrames, 70'000, memory);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(file.num_reads(), 1);
  EXPECT_EQ(memory->Peek(8).data() + 8, index->records.bytes().data());
}

TEST(RecordIndexTest, AFileLongerThanAnyIndexOfTheShardIsNotRead) {
  const std::string good = Encoded(IndexOf({54, 54}));
  const FakeFile longest(good + std::string(3 * 4, 'x'));  // three begins of 8 bytes
  const FakeFile longer(good + std::string(3 * 4 + 8, 'x'));
  EXPECT_FALSE(
      ReadIndex(longest, kKey, kTfRecordFrames, 2 * 16, std::make_shared<IndexMemory>()).ok());
  EXPECT_EQ(longest.num_reads(), 1);
  EXPECT_FALSE(
      ReadIndex(longer, kKey, kTfRecordFrames, 2 * 16, std::make_shared<IndexMemory>()).ok());
  EXPECT_EQ(longer.num_reads(), 0);
}

// Frames end on, below and above what 32 bits hold.
TEST(RecordIndexTest, OffsetsStayExactWhereAShardPassesFourGibibytes) {
  for (const uint64_t last : {uint64_t{999}, uint64_t{1000}, uint64_t{1 << 20}}) {
    std::vector<uint64_t> lengths(4, (uint64_t{1} << 30) - 16);
    lengths[3] -= 1000 + 1 + 16;  // then 2^32 - 1 after a record of 1000
    lengths.push_back(last);
    lengths.push_back(5);
    const ShardIndex index = IndexOf(lengths);
    EXPECT_EQ(index.records.longest(), lengths[0]);
    const auto back = Read(Encoded(index), kKey, index.records.end());
    ASSERT_TRUE(back.ok()) << back.status();
    uint64_t offset = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      EXPECT_EQ(index.records.offset(i), offset);
      EXPECT_EQ(back->records.offset(i), offset);
      EXPECT_EQ(index.records.length(i), lengths[i]);
      EXPECT_EQ(back->records.length(i), lengths[i]);
      offset += lengths[i] + 16;
    }
    EXPECT_EQ(back->records.longest(), lengths[0]);
    EXPECT_EQ(back->records.LengthsDigest(), index.records.LengthsDigest());
  }
}

TEST(RecordIndexTest, ShardsOfFourGibibytesTakeWideBegins) {
  EXPECT_EQ(Encoded(IndexOf({(uint64_t{1} << 32) - 17})).size(), kIndexHeader + 2 * 4);
  const std::string bytes = Encoded(IndexOf({uint64_t{5} << 30, 3}));
  EXPECT_EQ(bytes.size(), kIndexHeader + 3 * 8);
  const auto back = Read(bytes, kKey, (uint64_t{5} << 30) + 35);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->records.length(0), uint64_t{5} << 30);
  EXPECT_EQ(back->records.length(1), 3u);
}

TEST(IndexMemoryTest, WhatIsTakenIsApartAndAligned) {
  IndexMemory memory;
  std::vector<std::span<std::byte>> taken;
  for (const size_t bytes : {1, 7, 8, 4096, 3 << 20, 40 << 20, 12}) {
    taken.push_back(memory.Take(bytes));
    ASSERT_EQ(taken.back().size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(taken.back().data()) % 8, 0u);
    std::memset(taken.back().data(), static_cast<int>(taken.size()), bytes);
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i].front(), std::byte(i + 1));
    EXPECT_EQ(taken[i].back(), std::byte(i + 1));
  }
  EXPECT_TRUE(memory.Take(size_t{1} << 60).empty()) << "more than there is";
  EXPECT_TRUE(memory.Peek(size_t{1} << 60).empty());
  EXPECT_TRUE(memory.Take(~size_t{0}).empty());
}

TEST(IndexMemoryTest, ATakeGivesTheEndOfWhatWasPeekedAt) {
  IndexMemory memory;
  const std::span<std::byte> first = memory.Take(8);
  std::memset(first.data(), 1, first.size());
  const std::span<std::byte> peeked = memory.Peek(16 + 13);
  ASSERT_EQ(peeked.size(), 16u + 13u);
  std::memset(peeked.data(), 2, peeked.size());
  EXPECT_EQ(memory.Peek(16 + 13).data(), peeked.data()) << "nothing was taken";
  const std::span<std::byte> taken = memory.Take(13);
  EXPECT_EQ(taken.data(), peeked.data() + 16);
  EXPECT_EQ(taken.back(), std::byte{2});
  EXPECT_EQ(first.front(), std::byte{1});
}

}  // namespace
}  // namespace millrace::readers
