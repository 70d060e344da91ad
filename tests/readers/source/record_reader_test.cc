#include "readers/record_reader.h"

#include <random>

#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/inflate/byte_source.h"
#include "readers/open_file.h"
#include "readers/source/record_reader.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"
#include "tests/sanitized.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<RecordReader> ReaderOf(std::shared_ptr<const RandomAccessFile> file,
                                       const TfRecordReaderOptions& options) {
  const bool is_auto = options.compression == Compression::kAuto;
  const Compression compression = is_auto ? DetectCompression(*file).value() : options.compression;
  auto source = MakeByteSource(std::move(file), compression);
  EXPECT_TRUE(source.ok()) << source.status();
  return MakeTfRecordReader(std::move(source).value(), options);
}

std::unique_ptr<RecordReader> ReaderOf(std::string bytes,
                                       const TfRecordReaderOptions& options = {}) {
  return ReaderOf(std::make_shared<FakeFile>(std::move(bytes)), options);
}

// What a reader says of a file, and says too when its bytes lie in memory.
ReadLog ReadBytes(const std::string& bytes, const TfRecordReaderOptions& options = {}) {
  const ReadLog log = ReadToEnd(*ReaderOf(bytes, options));
  const ReadLog in_place = ReadToEnd(*ReaderOf(std::make_shared<LendingFile>(bytes), options));
  EXPECT_EQ(in_place.records, log.records);
  EXPECT_EQ(in_place.errors.size(), log.errors.size());
  EXPECT_EQ(in_place.last_error, log.last_error);
  EXPECT_EQ(in_place.clean_end, log.clean_end);
  return log;
}

// One record is damaged, for `reason`, at `ordinal`, whose frame begins at `offset`.
void ExpectDamage(const ReadLog& log, RecordErrorReason reason, int64_t ordinal, int64_t offset) {
  ASSERT_EQ(log.errors.size(), 1u) << log.last_error;
  EXPECT_EQ(RecordErrorReasonName(log.errors[0].reason), RecordErrorReasonName(reason))
      << log.last_error;
  EXPECT_EQ(log.errors[0].ordinal, ordinal);
  EXPECT_EQ(log.errors[0].offset, offset);
  EXPECT_EQ(log.errors[0].file, "fake.tfrecord");
  EXPECT_EQ(log.last_error.code(), absl::StatusCode::kDataLoss);
}

const std::vector<std::string>& Three() {
  static const std::vector<std::string>& payloads =
      *new std::vector<std::string>{"first", "the second record", ""};
  return payloads;
}

TEST(RecordReaderTest, ReadsTheKnownVectorOf39Bytes) {
  const std::string bytes = Frames({"abc", "defg"});
  EXPECT_EQ(bytes.size(), 39u);
  const ReadLog log = ReadBytes(bytes);
  EXPECT_THAT(log.Payloads(), ElementsAre("abc", "defg"));
  EXPECT_TRUE(log.clean_end);
}

TEST(RecordReaderTest, ReadsWhatTensorFlowWrote) {
  for (const char* name : {"tf_plain.tfrecord", "tf_gzip.tfrecord.gz", "tf_zlib.tfrecord"}) {
    auto reader = OpenTfRecordReader(TestData(name));
    ASSERT_TRUE(reader.ok()) << reader.status();
    const ReadLog log = ReadToEnd(**reader);
    EXPECT_EQ(log.Payloads(), TfPayloads()) << name;
    EXPECT_TRUE(log.clean_end) << log.last_error;
  }
}

TEST(RecordReaderTest, RefsSayWhereRecordsLie) {
  const auto reader = ReaderOf(Frames(Three()));
  uint64_t offset = 0;
  for (uint64_t i = 0; i < Three().size(); ++i) {
    const auto record = reader->Next();
    ASSERT_TRUE(record.ok() && record->has_value());
    EXPECT_EQ((*record)->ref.ordinal, i);
    EXPECT_EQ((*record)->ref.offset, offset);
    EXPECT_EQ((*record)->ref.length, Three()[i].size());
    offset += Three()[i].size() + kFrameBytes;
  }
}

TEST(RecordReaderTest, EmptyFileIsACleanEndForEver) {
  const auto reader = ReaderOf("");
  for (int i = 0; i < 3; ++i) {
    const auto next = reader->Next();
    ASSERT_TRUE(next.ok());
    EXPECT_FALSE(next->has_value());
  }
}

TEST(RecordReaderTest, ChunkSizeNeverChangesRecords) {
  std::vector<std::string> payloads;
  for (int i = 0; i < 200; ++i)
    payloads.emplace_back(static_cast<size_t>(i * i % 301), 'a' + i % 26);
  for (const size_t chunk_bytes : {1, 64, 65, 100, 316, 317, 4096, 1 << 20}) {
    TfRecordReaderOptions options;
    options.chunk_bytes = chunk_bytes;
    for (const std::string& bytes :
         {Frames(payloads), Deflated(Frames(payloads), Wrapper::kGzip)}) {
      const ReadLog log = ReadBytes(bytes, options);
      EXPECT_EQ(log.Payloads(), payloads) << chunk_bytes;
      EXPECT_TRUE(log.clean_end);
    }
  }
}

TEST(RecordReaderTest, PayloadsLiveAsLongAsTheirKeepAlive) {
  std::vector<std::string> payloads;
  for (int i = 0; i < 100; ++i) payloads.emplace_back(50, static_cast<char>('!' + i % 90));
  TfRecordReaderOptions options;
  options.chunk_bytes = 128;  // a chunk for every record or two
  auto reader = ReaderOf(Frames(payloads), options);
  std::vector<Record> kept;
  for (size_t i = 0; i < payloads.size(); ++i) {
    auto record = reader->Next();
    ASSERT_TRUE(record.ok() && record->has_value());
    if (i % 3 == 0) kept.push_back(**std::move(record));  // the others' chunks are used again
  }
  reader.reset();
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].payload, payloads[3 * i]);
}

TEST(RecordReaderTest, RecordsOfOneChunkShareItWithoutCopies) {
  const auto reader = ReaderOf(Frames({"aaaa", "bbbb"}));
  const auto first = reader->Next();
  const auto second = reader->Next();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->keep_alive, (*second)->keep_alive);
  EXPECT_EQ((*first)->payload.data() + 4 + kFrameBytes, (*second)->payload.data());
}

TEST(RecordReaderTest, AMappedFileIsReadWhereItLies) {
  const TempFolder folder;
  std::vector<std::string> payloads;
  for (int i = 0; i < 100; ++i) payloads.emplace_back(50'000 + i, static_cast<char>('!' + i % 90));
  WriteFile(folder / "f", Frames(payloads));
  WriteFile(folder / "f.gz", Deflated(Frames(payloads), Wrapper::kGzip));
  TfRecordReaderOptions options;
  for (const FileIo io : {FileIo::kPread, FileIo::kMmap, FileIo::kDirect}) {
    options.access.io = io;
    for (const char* name : {"f", "f.gz"}) {
      auto reader = OpenTfRecordReader(folder / name, options);
      ASSERT_TRUE(reader.ok()) << reader.status();
      const ReadLog log = ReadToEnd(**reader);
      EXPECT_EQ(log.Payloads(), payloads) << name;
      EXPECT_TRUE(log.clean_end);
    }
  }
  options.access.io = FileIo::kMmap;
  auto reader = OpenTfRecordReader(folder / "f", options).value();
  const Record first = *reader->Next().value();
  reader.reset();
  EXPECT_EQ(first.payload, payloads[0]);
}

TEST(RecordReaderTest, BadLengthCrcEndsTheFraming) {
  std::string bytes = Frames(Three());
  const size_t second = Frame(Three()[0]).size();
  bytes[second + 9] ^= 1;
  const auto reader = ReaderOf(bytes);
  const ReadLog log = ReadToEnd(*reader);
  EXPECT_THAT(log.Payloads(), ElementsAre("first"));
  ExpectDamage(log, RecordErrorReason::kLengthCrc, 1, static_cast<int64_t>(second));
  EXPECT_EQ(reader->Next().status(), log.last_error) << "the error is sticky";
}

TEST(RecordReaderTest, BadDataCrcLosesOneRecordOnly) {
  std::string bytes = Frames(Three());
  const size_t second = Frame(Three()[0]).size();
  bytes[second + kHeaderBytes] ^= 1;
  const ReadLog log = ReadBytes(bytes);
  ExpectDamage(log, RecordErrorReason::kDataCrc, 1, static_cast<int64_t>(second));
  EXPECT_THAT(log.Payloads(), ElementsAre("first", ""));
  EXPECT_TRUE(log.clean_end);
}

TEST(RecordReaderTest, WithoutVerificationBothCrcsAreIgnored) {
  std::string bytes = Frames(Three());
  bytes[9] ^= 1;
  bytes[kHeaderBytes] ^= 1;
  TfRecordReaderOptions options;
  options.compression = Compression::kNone;
  options.verify_crc = false;
  const ReadLog log = ReadBytes(bytes, options);
  EXPECT_EQ(log.records.size(), 3u);
  EXPECT_TRUE(log.clean_end);
}

TEST(RecordReaderTest, TruncatedHeaderIsDataLossNotEnd) {
  const std::string whole = Frames(Three());
  for (size_t stray = 1; stray < kHeaderBytes; ++stray) {
    const std::string bytes = whole + Header(5).substr(0, stray);
    for (const std::string& stored :
         {bytes, Deflated(bytes, Wrapper::kGzip), Deflated(bytes, Wrapper::kZlib)}) {
      const ReadLog log = ReadBytes(stored);
      EXPECT_EQ(log.Payloads(), Three());
      ExpectDamage(log, RecordErrorReason::kTruncatedHeader, 3, static_cast<int64_t>(whole.size()));
    }
  }
}

TEST(RecordReaderTest, TruncatedPayloadInsideAWholeCompressedStreamIsTold) {
  const std::string bytes = Frames({"one"}) + Frame("two two two").substr(0, 20);
  for (const Wrapper wrapper : {Wrapper::kGzip, Wrapper::kZlib}) {
    const ReadLog log = ReadBytes(Deflated(bytes, wrapper));
    EXPECT_THAT(log.Payloads(), ElementsAre("one"));
    ExpectDamage(log, RecordErrorReason::kTruncatedPayload, 1, 19);
  }
}

TEST(RecordReaderTest, EveryPrefixIsCleanAtABoundaryAndDataLossElsewhere) {
  const std::string bytes = Frames(Three());
  std::vector<size_t> begins = {0};
  for (const std::string& payload : Three()) begins.push_back(begins.back() + payload.size() + 16);
  size_t whole = 0;  // records that the prefix holds
  for (size_t size = 0; size <= bytes.size(); ++size) {
    if (size == begins[whole + 1]) ++whole;
    const ReadLog log = ReadBytes(bytes.substr(0, size));
    EXPECT_EQ(log.records.size(), whole) << size;
    const size_t extra = size - begins[whole];
    EXPECT_EQ(log.clean_end, extra == 0) << size;
    if (extra == 0) continue;
    ExpectDamage(log,
                 extra < kHeaderBytes ? RecordErrorReason::kTruncatedHeader
                                      : RecordErrorReason::kTruncatedPayload,
                 static_cast<int64_t>(whole), static_cast<int64_t>(begins[whole]));
  }
}

TEST(RecordReaderTest, EveryPrefixOfACompressedFileIsACutStream) {
  for (const auto& [wrapper, compression] : {std::pair(Wrapper::kGzip, Compression::kGzip),
                                             std::pair(Wrapper::kZlib, Compression::kZlib)}) {
    const std::string bytes = Deflated(Frames(TfPayloads()), wrapper);
    TfRecordReaderOptions options;
    options.compression = compression;
    for (size_t size = 0; size < bytes.size(); ++size) {
      const ReadLog log = ReadBytes(bytes.substr(0, size), options);
      EXPECT_FALSE(log.clean_end) << size;
      ASSERT_EQ(log.errors.size(), 1u) << size;
      EXPECT_EQ(log.errors[0].reason, RecordErrorReason::kCompressedCut) << log.last_error;
      EXPECT_EQ(log.errors[0].ordinal, static_cast<int64_t>(log.records.size()));
      EXPECT_GE(log.errors[0].offset, 0);
      const std::vector<std::string> all = TfPayloads();
      EXPECT_TRUE(std::equal(log.records.begin(), log.records.end(), all.begin(),
                             [](const auto& got, const auto& want) { return got.second == want; }));
    }
  }
}

TEST(RecordReaderTest, EveryBitFlipIsDetectedAtItsRecord) {
  const std::string bytes = Frames(Three());
  TfRecordReaderOptions options;
  options.compression = Compression::kNone;
  int64_t record = 0;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (at == begin + Three()[static_cast<size_t>(record)].size() + kFrameBytes) {
      begin = at;
      ++record;
    }
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      const RecordErrorReason reason =
          at < begin + kHeaderBytes ? RecordErrorReason::kLengthCrc : RecordErrorReason::kDataCrc;
      ExpectDamage(ReadBytes(flipped, options), reason, record, static_cast<int64_t>(begin));
    }
  }
}

// Bits that say nothing about the data (time and system in gzip, padding) may flip unseen; a wrong
// payload may never come out.
TEST(RecordReaderTest, NoBitFlipOfACompressedFileYieldsAWrongRecord) {
  for (const auto& [wrapper, compression] : {std::pair(Wrapper::kGzip, Compression::kGzip),
                                             std::pair(Wrapper::kZlib, Compression::kZlib)}) {
    const std::string bytes = Deflated(Frames(Three()), wrapper);
    TfRecordReaderOptions options;
    options.compression = compression;
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string flipped = bytes;
        flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
        const ReadLog log = ReadBytes(flipped, options);
        for (const auto& [ordinal, payload] : log.records) EXPECT_EQ(payload, Three()[ordinal]);
        EXPECT_TRUE(!log.errors.empty() || log.Payloads() == Three()) << at << " bit " << bit;
      }
    }
  }
}

TEST(RecordReaderTest, LengthOverTheLimitIsAbsurdAndNotRead) {
  TfRecordReaderOptions options;
  options.max_record_bytes = 100;
  EXPECT_TRUE(ReadBytes(Frames({std::string(100, 'x')}), options).clean_end);
  ExpectDamage(ReadBytes(Frames({"ok", std::string(101, 'x')}), options),
               RecordErrorReason::kAbsurdLength, 1, 18);
  options.max_record_bytes = UINT64_MAX;
  ExpectDamage(ReadBytes(Header(UINT64_MAX) + "x", options), RecordErrorReason::kAbsurdLength, 0,
               0);
}

TEST(RecordReaderTest, GoodLengthBeyondThePlainFileIsTruncatedWithoutAllocation) {
  TfRecordReaderOptions options;
  options.max_record_bytes = uint64_t{1} << 50;  // a petabyte: allocating it would fail
  ExpectDamage(ReadBytes(Header(uint64_t{1} << 49) + "x", options),
               RecordErrorReason::kTruncatedPayload, 0, 0);
}

TEST(RecordReaderTest, CorruptDeflateDataIsTold) {
  std::string noise;
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) noise.push_back(static_cast<char>(random()));
  for (const Wrapper wrapper : {Wrapper::kGzip, Wrapper::kZlib}) {
    std::string bytes = Deflated(Frames({noise}), wrapper);
    bytes[bytes.size() - 1] ^= 1;  // ISIZE of gzip, Adler-32 of zlib
    const ReadLog log = ReadBytes(bytes);
    EXPECT_THAT(log.Payloads(), ElementsAre(noise)) << "complete before the trailer";
    ExpectDamage(log, RecordErrorReason::kCompressedData, 1, 5016);
    EXPECT_THAT(std::string(log.last_error.message()), HasSubstr("checksum"));
  }
}

TEST(RecordReaderTest, DeclaredCompressionIsChecked) {
  TfRecordReaderOptions options;
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    options.compression = compression;
    ExpectDamage(ReadBytes(Frames({"plain"}), options), RecordErrorReason::kWrongCompression, 0, 0);
  }
  options.compression = Compression::kGzip;
  ExpectDamage(ReadBytes(Deflated(Frames({"x"}), Wrapper::kZlib), options),
               RecordErrorReason::kWrongCompression, 0, 0);
  options.compression = Compression::kNone;
  for (const auto& [wrapper, name] :
       {std::pair(Wrapper::kGzip, "gzip"), std::pair(Wrapper::kZlib, "zlib")}) {
    const ReadLog log = ReadBytes(Deflated(Frames({"x"}), wrapper), options);
    ExpectDamage(log, RecordErrorReason::kWrongCompression, 0, 0);
    EXPECT_MESSAGE(log.last_error);
  }
}

TEST(RecordReaderTest, OnlyTheFrontOfAPlainFileIsTakenForAnotherCompression) {
  const std::string stream = Deflated(Frames({"x"}), Wrapper::kGzip);
  TfRecordReaderOptions options;
  options.compression = Compression::kGzip;
  const ReadLog twice = ReadBytes(Deflated(stream, Wrapper::kGzip), options);
  ExpectDamage(twice, RecordErrorReason::kLengthCrc, 0, 0);
  EXPECT_MESSAGE(twice.last_error);
  options.compression = Compression::kNone;
  ExpectDamage(ReadBytes(Frame("x") + stream, options), RecordErrorReason::kLengthCrc, 1, 17);
}

TEST(RecordReaderTest, ConcatenatedGzipMembersAreOneShard) {
  const std::string bytes = Frames(Three());
  for (size_t cut = 0; cut <= bytes.size(); cut += 5) {
    const ReadLog log = ReadBytes(Deflated(bytes.substr(0, cut), Wrapper::kGzip) +
                                  Deflated(bytes.substr(cut), Wrapper::kGzip));
    EXPECT_EQ(log.Payloads(), Three()) << cut;
    EXPECT_TRUE(log.clean_end) << log.last_error;
  }
}

TEST(RecordReaderTest, UnreadableFileIsNotDamageAndTheReaderStaysDead) {
  auto file = std::make_shared<FakeFile>(Frames(std::vector<std::string>(100, "payload")));
  file->FailFrom(1000);
  auto source = MakeByteSource(file, Compression::kNone);
  TfRecordReaderOptions options;
  options.chunk_bytes = 64;
  const auto reader = MakeTfRecordReader(std::move(source).value(), options);
  const ReadLog log = ReadToEnd(*reader);
  EXPECT_GT(log.records.size(), 30u);
  EXPECT_LT(log.records.size(), 44u);
  EXPECT_EQ(log.last_error.code(), absl::StatusCode::kUnknown);
  EXPECT_MESSAGE(log.last_error);
  EXPECT_EQ(reader->Next().status(), log.last_error);
}

TEST(RecordReaderTest, MissingFileIsNotFoundAndNamesIt) {
  const auto reader = OpenTfRecordReader("/nowhere/at-all.tfrecord");
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(reader.status());
}

TEST(RecordReaderTest, RandomBytesNeverCrashOrPass) {
  std::mt19937 random(20240611);
  for (int round = 0; round < Rounds(3000); ++round) {
    std::string bytes;
    const size_t size = 1 + random() % 300;
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(random()));
    switch (round % 4) {
      case 0:
        break;
      case 1:
        bytes = "\x1f\x8b\x08" + bytes;
        break;
      case 2:
        bytes = "\x78\x9c" + bytes;
        break;
      default:
        bytes = Frames({"good"}) + bytes;
    }
    const ReadLog log = ReadBytes(bytes);
    EXPECT_FALSE(log.clean_end);
    EXPECT_FALSE(log.errors.empty());
  }
}

TEST(RecordReaderTest, RandomDamageOfCompressedFilesNeverCrashes) {
  std::mt19937 random(7);
  const std::string good[] = {Deflated(Frames(TfPayloads()), Wrapper::kGzip),
                              Deflated(Frames(TfPayloads()), Wrapper::kZlib)};
  for (int round = 0; round < Rounds(3000); ++round) {
    std::string bytes = good[round % 2];
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    TfRecordReaderOptions options;
    options.chunk_bytes = 64 + random() % 512;
    const ReadLog log = ReadBytes(bytes, options);
    const std::vector<std::string> want = TfPayloads();
    for (const auto& [ordinal, payload] : log.records) EXPECT_EQ(payload, want.at(ordinal));
  }
}

}  // namespace
}  // namespace millrace::readers
