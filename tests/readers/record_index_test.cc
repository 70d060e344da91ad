#include "readers/record_index.h"

#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

TEST(RecordIndexTest, SmallRecordsShareReadsAndLargePayloadsAreJumpedOver) {
  const FakeFile small(Frames(std::vector<std::string>(10'000, "0123456789")));  // 260 kB
  RecordIndex index;
  ASSERT_TRUE(WalkRecords(small, {}, index).ok());
  EXPECT_EQ(index.num_records(), 10'000u);
  EXPECT_LE(small.num_reads(), 2);

  const FakeFile large(Frames(std::vector<std::string>(5, std::string(1 << 20, 'x'))));
  RecordIndex few;
  ASSERT_TRUE(WalkRecords(large, {}, few).ok());
  EXPECT_EQ(few.num_records(), 5u);
  EXPECT_EQ(large.num_reads(), 5);
}

TEST(RecordIndexTest, ReadErrorsAreToldAndWhatCameBeforeIsKept) {
  FakeFile file(Frames(std::vector<std::string>(10, std::string(100'000, 'x'))));
  file.FailFrom(550'000);
  RecordIndex index;
  const absl::Status status = WalkRecords(file, {}, index);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_GT(index.num_records(), 3u);
  EXPECT_LT(index.num_records(), 7u);
}

TEST(RecordIndexTest, EncodedIndexComesBackForItsStampOnly) {
  RecordIndex index;
  for (const uint64_t length : {0, 1, 70'000, 12}) index.Append(length);
  const ShardStamp stamp = {70'077, 123'456'789};
  const auto bytes = EncodeIndex(index, stamp);
  EXPECT_EQ(bytes.size(), 48u + 4 * 4 + 8);
  const auto back = DecodeIndex(bytes, stamp);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->num_records(), 4u);
  EXPECT_EQ(back->offset(3), 70'049u);
  EXPECT_EQ(back->length(2), 70'000u);
  EXPECT_EQ(back->LengthsDigest(), index.LengthsDigest());
  EXPECT_EQ(DecodeIndex(bytes, {70'078, 123'456'789}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DecodeIndex(bytes, {70'077, 123'456'788}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Frames end on, below and above what 32 bits hold, appended one by one or taken from a file.
TEST(RecordIndexTest, OffsetsStayExactWhereAShardPassesFourGibibytes) {
  for (const uint64_t last : {uint64_t{999}, uint64_t{1000}, uint64_t{1 << 20}}) {
    RecordIndex index;
    std::vector<uint64_t> lengths(4, (uint64_t{1} << 30) - 16);
    lengths[3] -= 1000 + 1 + 16;  // then 2^32 - 1 after a record of 1000
    lengths.push_back(last);
    lengths.push_back(5);
    for (const uint64_t length : lengths) index.Append(length);
    EXPECT_EQ(index.longest(), lengths[0]);
    const ShardStamp stamp = {index.framed_bytes(), 1};
    const auto back = DecodeIndex(EncodeIndex(index, stamp), stamp);
    ASSERT_TRUE(back.ok()) << back.status();
    uint64_t offset = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      EXPECT_EQ(index.offset(i), offset);
      EXPECT_EQ(back->offset(i), offset);
      EXPECT_EQ(index.length(i), lengths[i]);
      EXPECT_EQ(back->length(i), lengths[i]);
      offset += lengths[i] + 16;
    }
    EXPECT_EQ(back->longest(), lengths[0]);
    EXPECT_EQ(back->LengthsDigest(), index.LengthsDigest());
  }
}

TEST(RecordIndexTest, RecordsOverFourGibibytesTakeWideLengths) {
  RecordIndex index;
  index.Append(uint64_t{5} << 30);
  index.Append(3);
  const auto bytes = EncodeIndex(index, {});
  EXPECT_EQ(bytes.size(), 48u + 2 * 8 + 8);
  const auto back = DecodeIndex(bytes, {});
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->length(0), uint64_t{5} << 30);
  EXPECT_EQ(back->length(1), 3u);
}

}  // namespace
}  // namespace millrace::readers
