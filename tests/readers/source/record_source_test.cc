#include "readers/record_source.h"

#include <algorithm>
#include <random>

#include "readers/http/open_files.h"
#include "tests/messages.h"
#include "tests/readers/source/record_source_fixture.h"

namespace millrace::readers {
namespace {

using RecordSourceTest = RecordSourceFixture;

TEST_F(RecordSourceTest, NumbersRunThroughAllShards) {
  const auto a = Payloads(120, 1);
  const auto c = Payloads(7, 2);
  const auto source = Open({Shard("a", Frames(a)), Shard("b", ""), Shard("c", Frames(c))});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<std::string> all = a;
  all.insert(all.end(), c.begin(), c.end());
  ExpectRecords(**source, all);
  const RecordRef first_of_c = (*source)->Locate(120);
  EXPECT_EQ(first_of_c.shard, 2u) << "the empty shard holds no record";
  EXPECT_EQ(first_of_c.ordinal, 0u);
  EXPECT_EQ((*source)->Locate(119).shard, 0u);
}

TEST_F(RecordSourceTest, CompressedShardsAreReadAnywhere) {
  const auto a = Payloads(60, 1);
  const auto b = Payloads(60, 2);
  const auto c = Payloads(3, 3);
  for (const int threads : {1, 3}) {
    options_.threads = threads;
    const auto source =
        Open({Shard("a.gz", Deflated(Frames(a), Wrapper::kGzip)),
              Shard("b", Deflated(Frames(b), Wrapper::kZlib)), Shard("c", Frames(c))});
    ASSERT_TRUE(source.ok()) << source.status();
    std::vector<std::string> all = a;
    all.insert(all.end(), b.begin(), b.end());
    all.insert(all.end(), c.begin(), c.end());
    ExpectRecords(**source, all);
    EXPECT_EQ((*source)->file(0)->path(), data_ / "a.gz") << "messages name the shard";
  }
}

TEST_F(RecordSourceTest, ShortRecordsThroughBlocksInMemoryAreTheSame) {
  std::vector<std::string> payloads;
  for (int i = 0; i < 5000; ++i) payloads.emplace_back(40 + i % 100, static_cast<char>(i % 251));
  const std::string one = Shard("one.tfrecord", Frames(payloads));
  const std::string two = Shard("two.tfrecord", Frames(payloads));
  options_.window_records = 700;
  options_.cache_bytes = 200 << 10;  // less than the window takes
  const auto source = Open({one, two});
  ASSERT_TRUE(source.ok()) << source.status();
  std::mt19937 random(8);
  for (uint64_t i = 0; i < 9000; ++i) {
    const uint64_t record = i + random() % 1000;
    const auto got = ReadRecord(**source, record);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(*got, payloads[record % 5000]);
  }
}

TEST_F(RecordSourceTest, MemoryIsThatOfIndexesAndBlocks) {
  const std::vector<std::string> files = {Shard("a", Frames(std::vector<std::string>(3000, "x"))),
                                          Shard("b", Frames({"y"}))};
  EXPECT_EQ((*Open(files))->memory_bytes(), 4u * (3001 + 2)) << "an end for each shard";
  options_.window_records = 3000;
  options_.cache_bytes = 128 << 10;
  EXPECT_EQ((*Open(files))->memory_bytes(), 4u * (3001 + 2) + (128 << 10));
}

TEST_F(RecordSourceTest, WithoutThreadsToStartTheCallerOpensAllShards) {
  const auto payloads = Payloads(20, 1);
  options_.threads = 4;
  const std::vector<std::string> files = {Shard("a", Frames(payloads)), Shard("b", Frames({"x"}))};
  const NoMoreThreads no_more_threads;
  const auto source = Open(files);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->num_records(), 21u);
}

// S-FINGERPRINT-4.
TEST_F(RecordSourceTest, FingerprintKnowsNoFoldersAndNoTimes) {
  const std::string a = Frames(Payloads(20, 1));
  const std::string b = Frames(Payloads(30, 2));
  const uint64_t here = (*Open({Shard("a", a), Shard("b", b)}))->Fingerprint();
  const TempFolder other;
  WriteFile(other / "a", a);
  WriteFile(other / "b", b);
  EXPECT_EQ((*Open({other / "a", other / "b"}))->Fingerprint(), here);
  EXPECT_NE((*Open({other / "b", other / "a"}))->Fingerprint(), here) << "order counts";
  EXPECT_NE((*Open({other / "a"}))->Fingerprint(), here);
  std::filesystem::rename(other / "b", other / "c");
  EXPECT_NE((*Open({other / "a", other / "c"}))->Fingerprint(), here) << "names count";
  const std::string one = Shard("l", Frames({"12", "3"}));
  const uint64_t lengths = (*Open({one}))->Fingerprint();
  Shard("l", Frames({"1", "23"}));
  SetTime(one, 1'800'000'000);
  EXPECT_NE((*Open({one}))->Fingerprint(), lengths) << "lengths count";
}

TEST_F(RecordSourceTest, DamagedFramingIsTheReadersErrorOfTheFirstShard) {
  const std::string good = Frames({"one", "two"});
  std::string length_crc = good;
  length_crc[19 + 8] ^= 1;
  const std::pair<std::string, RecordErrorReason> cases[] = {
      {length_crc, RecordErrorReason::kLengthCrc},
      {good.substr(0, 19 + 11), RecordErrorReason::kTruncatedHeader},
      {good.substr(0, 19 + 15), RecordErrorReason::kTruncatedPayload},
      {good.substr(0, 19) + Header(uint64_t{1} << 40), RecordErrorReason::kAbsurdLength},
  };
  options_.threads = 3;
  for (const auto& [bytes, reason] : cases) {
    for (const bool gzip : {false, true}) {
      const std::string shard = Shard("bad", gzip ? Deflated(bytes, Wrapper::kGzip) : bytes);
      const auto source = Open({Shard("good", good), shard, shard, Shard("z", good)});
      const auto error = GetRecordError(source.status());
      ASSERT_TRUE(error.has_value()) << source.status();
      EXPECT_EQ(error->reason, reason) << source.status();
      EXPECT_EQ(error->file, shard);
      EXPECT_EQ(error->ordinal, 1);
      EXPECT_EQ(error->offset, 19);
    }
  }
}

TEST_F(RecordSourceTest, DamagedCompressionSaysWhichRecordItHit) {
  const std::string bytes = Deflated(Frames(Payloads(40, 1)), Wrapper::kGzip);
  auto source = Open({Shard("cut", bytes.substr(0, bytes.size() - 4))});
  auto error = GetRecordError(source.status());
  ASSERT_TRUE(error.has_value()) << source.status();
  EXPECT_EQ(error->reason, RecordErrorReason::kCompressedCut);
  EXPECT_EQ(error->ordinal, 40);
  options_.compression = Compression::kGzip;
  source = Open({Shard("plain", Frames({"x"}))});
  EXPECT_EQ(ReasonOf(source.status()), RecordErrorReason::kWrongCompression);
}

TEST_F(RecordSourceTest, CompressedShardDeclaredPlainSaysWhatItIs) {
  options_.compression = Compression::kNone;
  for (const auto& [wrapper, name] :
       {std::pair(Wrapper::kGzip, "gzip"), std::pair(Wrapper::kZlib, "zlib")}) {
    const auto source = Open({Shard(name, Deflated(Frames({"x"}), wrapper))});
    EXPECT_EQ(ReasonOf(source.status()), RecordErrorReason::kWrongCompression);
    EXPECT_MESSAGE(source.status());
  }
  options_.compression = Compression::kGzip;
  const std::string twice = Deflated(Deflated(Frames({"x"}), Wrapper::kGzip), Wrapper::kGzip);
  EXPECT_EQ(ReasonOf(Open({Shard("twice", twice)}).status()), RecordErrorReason::kLengthCrc);
}

TEST_F(RecordSourceTest, BadPayloadIsFoundByUnframe) {
  std::string bytes = Frames({"one", "two"});
  bytes[19 + 13] ^= 1;
  const std::string shard = Shard("a", bytes);
  auto source = Open({shard});
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(ReadRecord(**source, 0).value(), "one");
  const auto bad = ReadRecord(**source, 1);
  const auto error = GetRecordError(bad.status());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->reason, RecordErrorReason::kDataCrc);
  EXPECT_EQ(error->file, shard);
  EXPECT_EQ(error->offset, 19);
  options_.verify_crc = false;
  source = Open({shard});
  EXPECT_TRUE(ReadRecord(**source, 1).ok());
}

TEST_F(RecordSourceTest, ManyRecordsAreLocatedAsOneByOne) {
  const auto source = Open({Shard("a", Frames(Payloads(60, 1))), Shard("b", Frames({})),
                            Shard("c", Frames(Payloads(3, 2)))});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<SampleId> ids;
  for (uint64_t i = 0; i < 200; ++i) ids.push_back({.epoch = i, .record = i * i % 63});
  std::vector<RecordRef> refs(ids.size());
  std::vector<size_t> starts(ids.size() + 1);
  (*source)->LocateAll(ids, refs, starts);
  EXPECT_EQ(starts[0], 0u);
  for (size_t i = 0; i < ids.size(); ++i) {
    const RecordRef want = (*source)->Locate(ids[i].record);
    EXPECT_EQ(refs[i].shard, want.shard);
    EXPECT_EQ(refs[i].ordinal, want.ordinal);
    EXPECT_EQ(refs[i].offset, want.offset);
    EXPECT_EQ(refs[i].length, want.length);
    EXPECT_EQ(starts[i + 1] - starts[i], (*source)->FramedBytes(want));
  }
}

// Lengths on both sides of every way to sum them; each byte of a frame, damaged, is noticed.
TEST_F(RecordSourceTest, ManyFramesAreCheckedAsOneByOne) {
  std::vector<std::string> payloads;
  for (size_t size = 0; size < 40; ++size)
    payloads.emplace_back(size, static_cast<char>('!' + size));
  for (const size_t size : {100, 511, 512, 513, 4000}) payloads.emplace_back(size, 'q');
  const std::string frames = Frames(payloads);
  const auto source = Open({Shard("a", frames)});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<RecordRef> refs;
  std::vector<size_t> starts;
  for (size_t i = 0; i < payloads.size(); ++i) {
    refs.push_back((*source)->Locate(i));
    starts.push_back(refs.back().offset);
  }
  starts.push_back(frames.size());
  std::vector<std::string_view> found(refs.size());
  const auto unframe = [&](const std::string& bytes) {
    return (*source)->UnframeAll(refs, reinterpret_cast<const std::byte*>(bytes.data()), starts,
                                 found);
  };
  ASSERT_EQ(unframe(frames), payloads.size());
  for (size_t i = 0; i < payloads.size(); ++i) EXPECT_TRUE(found[i] == payloads[i]) << i;
  std::string damaged = frames;
  size_t record = 0;
  for (size_t at = 0; at < frames.size(); at += at < 3000 ? 1 : 97) {
    while (at >= starts[record + 1]) ++record;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    ASSERT_EQ(unframe(damaged), record) << "byte " << at;
    damaged[at] = frames[at];
  }
}

TEST_F(RecordSourceTest, ShardThatWasCutAfterOpenIsDataLoss) {
  const std::string shard = Shard("a", Frames({"one", "two"}));
  const auto source = Open({shard});
  std::filesystem::resize_file(shard, 25);
  EXPECT_EQ(ReadRecord(**source, 0).value(), "one");
  EXPECT_EQ(ReadRecord(**source, 1).status().code(), absl::StatusCode::kDataLoss);
  const RecordRef ref = (*source)->Locate(1);
  const std::vector<std::byte> few(5);
  EXPECT_EQ(ReasonOf((*source)->Unframe(ref, few).status()), RecordErrorReason::kTruncatedPayload);
}

TEST_F(RecordSourceTest, MissingFilesAndEmptyListsAreErrors) {
  EXPECT_EQ(Open({}).status().code(), absl::StatusCode::kInvalidArgument);
  const auto source = Open({data_ / "absent"});
  EXPECT_EQ(source.status().code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(source.status());
}

TEST_F(RecordSourceTest, ProgressEndsAtTheTotal) {
  const std::string a = Shard("a", Frames(Payloads(500, 1)));
  const std::string b = Shard("b", Deflated(Frames(Payloads(50, 2)), Wrapper::kGzip));
  int64_t last = 0;
  int64_t total = 0;
  int calls = 0;
  options_.progress = [&](int64_t done, int64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    ++calls;
  };
  options_.threads = 2;
  ASSERT_TRUE(RecordSource::Open({a, b}, options_).ok());
  EXPECT_EQ(last, total);
  EXPECT_EQ(static_cast<uint64_t>(total),
            std::filesystem::file_size(a) + std::filesystem::file_size(b));
  EXPECT_GT(calls, 2);
}

TEST(OpenFilesTest, FilesBeyondTheLimitAreOpenedAgain) {
  const TempFolder folder;
  const auto files = std::make_shared<OpenFiles>(2);
  std::vector<std::shared_ptr<const RandomAccessFile>> opened;
  for (int i = 0; i < 6; ++i) {
    const std::string name = folder / std::to_string(i);
    WriteFile(name, std::string(10, static_cast<char>('0' + i)));
    opened.push_back(files->Open(name).value());
  }
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < opened.size(); ++i) {
      std::byte byte = {};
      ASSERT_EQ(opened[i]->ReadAt(5, {&byte, 1}).value(), 1u);
      EXPECT_EQ(std::to_integer<size_t>(byte), '0' + i);
    }
  }
  std::filesystem::remove(folder / "0");
  std::byte byte = {};
  EXPECT_EQ(opened[0]->ReadAt(0, {&byte, 1}).status().code(), absl::StatusCode::kNotFound)
      << "its descriptor had been closed";
}

}  // namespace
}  // namespace millrace::readers
