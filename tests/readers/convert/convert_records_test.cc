#include <algorithm>
#include <cstdint>

#include "base/record_error.h"
#include "readers/convert.h"
#include "tests/messages.h"
#include "tests/readers/convert/convert_fixture.h"
#include "tests/readers/inflate/deflated.h"

// Records that are copied as bytes, and what every conversion has in common.

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

using ConvertRecordsTest = ConvertFixture;

TEST_F(ConvertRecordsTest, BytesGoFromEachContainerToEachOther) {
  const std::vector<std::string> lines = {"abcd", "", "a longer line", "\xff\xfe"};
  WriteTfRecord(Path("in.tfrecord"), lines);
  // Lines.
  const auto text =
      Run(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kText, "a"));
  EXPECT_THAT(text, ElementsAre(Path("out/a-00000-of-00001.txt")));
  EXPECT_EQ(ReadFile(text[0]), "abcd\n\na longer line\n\xff\xfe\n");
  const auto back = Run(Options(ConvertFormat::kText, text, ConvertFormat::kTfRecord, "b"));
  EXPECT_EQ(ReadFile(back[0]), ReadFile(Path("in.tfrecord")));
  // Records of one length.
  const std::vector<std::string> words = {"abcd", "efgh", std::string("1\r\n3"),
                                          std::string("\0\1\2\3", 4)};
  WriteTfRecord(Path("words.tfrecord"), words);
  auto fixed = Run(Options(ConvertFormat::kTfRecord, {Path("words.tfrecord")},
                           ConvertFormat::kFixedLength, "c"));
  EXPECT_EQ(ReadFile(fixed[0]), std::string("abcdefgh1\r\n3\0\1\2\3", 16));
  ConvertOptions options =
      Options(ConvertFormat::kFixedLength, fixed, ConvertFormat::kTfRecord, "d");
  options.container.record_bytes = 4;
  EXPECT_EQ(ReadFile(Run(options)[0]), ReadFile(Path("words.tfrecord")));
}

TEST_F(ConvertRecordsTest, HeaderAndFooterOfRecordsOfOneLengthAreNotRead) {
  ConvertOptions options = Options(ConvertFormat::kFixedLength,
                                   {Write("in.bin", "head12345678foot!")}, ConvertFormat::kText);
  options.container.header_bytes = 4;
  options.container.record_bytes = 4;
  options.container.footer_bytes = 5;
  EXPECT_EQ(ReadFile(Run(options).at(0)), "1234\n5678\n");
}

TEST_F(ConvertRecordsTest, WhatALineCannotHoldIsAnErrorAtTheRecord) {
  for (const char* const payload : {"two\nlines", "two\rlines", "ends in \r"}) {
    WriteTfRecord(Path("in.tfrecord"), {"good", payload});
    const auto report =
        Convert(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kText));
    EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_MESSAGE(report.status());
    const auto error = GetRecordError(report.status());
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->file, Path("in.tfrecord"));
    EXPECT_EQ(error->ordinal, 1);
    EXPECT_EQ(error->offset, 20);
  }
}

TEST_F(ConvertRecordsTest, RecordsOfSeveralLengthsAreNotOfFixedLength) {
  const std::string in = Write("in.txt", "abc\nabcd\n");
  EXPECT_MESSAGE(Error(Options(ConvertFormat::kText, {in}, ConvertFormat::kFixedLength)));
  const std::string empty = Write("empty.txt", "\n");
  EXPECT_MESSAGE(Error(Options(ConvertFormat::kText, {empty}, ConvertFormat::kFixedLength)));
}

// Texts of two files in shards; each number of threads gives the same bytes.
TEST_F(ConvertRecordsTest, ThreadsAndShardsKeepTheOrder) {
  std::string first;
  std::string second;
  for (int i = 0; i < 3000; ++i) first += "line " + std::to_string(i) + "\n";
  for (int i = 3000; i < 5000; ++i) second += "line " + std::to_string(i) + "\n";
  ConvertOptions options =
      Options(ConvertFormat::kText, {Write("1.txt", first), Write("2.txt", second)},
              ConvertFormat::kTfRecord);
  options.num_shards = 3;
  const auto payloads = ReadPayloads(Run(options));
  ASSERT_EQ(payloads.size(), 5000u);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(payloads[i], "line " + std::to_string(i));
  std::vector<std::string> sorted = payloads;
  std::ranges::sort(sorted);
  options.shuffle_seed = 3;
  options.compression = Compression::kGzip;
  std::vector<std::string> bytes;
  for (const int threads : {1, 2, 7}) {
    options.threads = threads;
    options.output_prefix = folder_ / ("out/s" + std::to_string(threads));
    const auto files = Run(options);
    ASSERT_EQ(files.size(), 3u);
    std::vector<std::string> now;
    for (const std::string& file : files) now.push_back(ReadFile(file));
    if (bytes.empty()) bytes = now;
    EXPECT_THAT(now, ElementsAreArray(bytes)) << threads;
    std::vector<std::string> shuffled = ReadPayloads(files);
    EXPECT_NE(shuffled, payloads);
    std::ranges::sort(shuffled);
    EXPECT_EQ(shuffled, sorted);
  }
}

// Of several threads the error of the first bad record wins.
TEST_F(ConvertRecordsTest, TheFirstErrorIsToldForEveryNumberOfThreads) {
  std::vector<std::string> payloads(4000, "good");
  for (const size_t bad : {1999, 2000, 3500}) payloads[bad] = "not\ngood";
  WriteTfRecord(Path("in.tfrecord"), payloads);
  ConvertOptions options =
      Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kText);
  for (const int threads : {1, 4}) {
    options.threads = threads;
    EXPECT_MESSAGE(Error(options), "record_1999");
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
  }
}

TEST_F(ConvertRecordsTest, CompressedInputIsReadAndCompressedOutputIsWritten) {
  const std::string in = Write("in.txt.gz", Deflated("one\ntwo\n", Wrapper::kGzip));
  ConvertOptions options = Options(ConvertFormat::kText, {in}, ConvertFormat::kText);
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    options.output_prefix = folder_ / ("out/" + std::string(CompressionName(compression)));
    options.compression = compression;
    const auto files = Run(options);
    ConvertOptions again = Options(ConvertFormat::kText, files, ConvertFormat::kTfRecord,
                                   "back" + std::string(CompressionName(compression)));
    again.input_compression = compression;
    EXPECT_THAT(ReadPayloads(Run(again)), ElementsAre("one", "two"));
  }
}

TEST_F(ConvertRecordsTest, DamagedInputIsAnErrorAtTheRecordAndLeavesNothing) {
  WriteTfRecord(Path("in.tfrecord"), {"first", "second", "third"});
  std::string bytes = ReadFile(Path("in.tfrecord"));
  bytes[21 + 12] ^= 1;  // in the second payload
  WriteFile(Path("in.tfrecord"), bytes);
  const auto report =
      Convert(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kText));
  EXPECT_EQ(report.status().code(), absl::StatusCode::kDataLoss);
  const auto error = GetRecordError(report.status());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file, Path("in.tfrecord"));
  EXPECT_EQ(error->ordinal, 1);
  EXPECT_EQ(error->reason, RecordErrorReason::kDataCrc);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
}

TEST_F(ConvertRecordsTest, APrefixHoldsOneSetOfWhateverFormat) {
  const std::string in = Write("in.txt", "a\nb\n");
  const auto csv = Write("out/t-00000-of-00002.csv", "precious");
  ConvertOptions options = Options(ConvertFormat::kText, {in}, ConvertFormat::kTfRecord);
  EXPECT_MESSAGE(Error(options, absl::StatusCode::kAlreadyExists));
  options.overwrite = true;
  EXPECT_EQ(Run(options).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(csv));
}

TEST_F(ConvertRecordsTest, ProgressIsToldOfTheIndexAndOfEveryRecord) {
  const std::string text = "a\nbc\n";
  ConvertOptions options =
      Options(ConvertFormat::kText, {Write("in.txt", text)}, ConvertFormat::kTfRecord);
  std::vector<int64_t> indexed;
  options.index_progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, static_cast<int64_t>(text.size()));
    indexed.push_back(done);
  };
  std::vector<int64_t> written;
  const auto report = Convert(options, [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 2);
    written.push_back(done);
  });
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_FALSE(indexed.empty());
  EXPECT_EQ(indexed.back(), static_cast<int64_t>(text.size()));
  EXPECT_THAT(written, ElementsAre(1, 2));
}

TEST_F(ConvertRecordsTest, NoRecordsMakeAnEmptyShard) {
  const std::string in = Write("in.txt", "");
  ConvertOptions options = Options(ConvertFormat::kText, {in}, ConvertFormat::kTfRecord);
  EXPECT_THAT(ReadPayloads(Run(options)), testing::IsEmpty());
  options.overwrite = true;
  options.shuffle_seed = 1;
  EXPECT_THAT(ReadPayloads(Run(options)), testing::IsEmpty());
  options.num_shards = 2;
  EXPECT_MESSAGE(Error(options));
}

TEST_F(ConvertRecordsTest, PairsThatMakeNoSenseSayWhy) {
  const std::string in = Write("in.txt", "a\n");
  const auto expect = [&](ConvertFormat from, ConvertFormat to, auto&& change) {
    ConvertOptions options = Options(from, {in}, to);
    change(options);
    EXPECT_MESSAGE(Error(options));
  };
  const auto nothing = [](ConvertOptions&) {};
  const auto a_list = [](ConvertOptions& o) { o.schema = {{"a", DType::kI64, true, false}}; };
  using F = ConvertFormat;
  expect(F::kText, F::kCsv, nothing);
  expect(F::kTfRecord, F::kTfRecord, [](auto& o) { o.feature = "x"; });
  expect(F::kTar, F::kText, nothing);
  expect(F::kCsv, F::kTfRecord, nothing);
  expect(F::kJsonLines, F::kTfRecord, nothing);
  expect(F::kCsv, F::kTfRecord, a_list);
  expect(F::kJsonLines, F::kCsv, a_list);
  expect(F::kTfRecord, F::kText, a_list);
  for (const F from : {F::kText, F::kFixedLength}) {
    expect(from, F::kCsv, [](auto& o) {
      o.schema = {{"a", DType::kI64}};
      o.feature = "a";
      o.container.record_bytes = o.from == F::kText ? 0 : 1;
    });
  }
  expect(F::kCsv, F::kTfRecord, [](auto& o) { o.schema = {{.name = "a"}, {.name = "a"}}; });
  expect(F::kFixedLength, F::kText, nothing);
  expect(F::kTfRecord, F::kIdx, nothing);
  expect(F::kTfRecord, F::kImages, [](auto& o) { o.compression = Compression::kGzip; });
  expect(F::kText, F::kTfRecord, [](auto& o) { o.images = "x"; });
  expect(F::kText, F::kTfRecord, [](auto& o) { o.label = 1; });
  expect(F::kText, F::kTfRecord, [](auto& o) { o.threads = 0; });
  expect(F::kText, F::kTfRecord, [](auto& o) { o.files.clear(); });
  expect(F::kCsv, F::kTfRecord, [](auto& o) {
    o.schema = {{.name = "a"}};
    o.container.delimiter = '"';
  });
  expect(F::kTfRecord, F::kTfRecord, [](auto& o) { o.features = {{"a", "x"}, {"b", "x"}}; });
}

TEST_F(ConvertRecordsTest, OptionsThatDoNotApplyAreRefused) {
  const std::string in = Write("in.txt", "a\n");
  const auto expect = [&](auto&& change) {
    ConvertOptions options = Options(ConvertFormat::kText, {in}, ConvertFormat::kTfRecord);
    change(options);
    EXPECT_MESSAGE(Error(options));
  };
  expect([](auto& o) { o.container.has_header = true; });
  expect([](auto& o) { o.container.delimiter = ';'; });
  expect([](auto& o) { o.container.record_bytes = 8; });
  expect([](auto& o) { o.container.header_bytes = 8; });
  expect([](auto& o) { o.container.footer_bytes = 8; });
  expect([](auto& o) { o.image_feature = "a"; });
  expect([](auto& o) {
    o.from = ConvertFormat::kImages;
    o.images = o.files[0];
    o.files.clear();
    o.input_compression = Compression::kGzip;
  });
}

TEST_F(ConvertRecordsTest, SchemasAreParsedAndPrinted) {
  const auto schema = Schema("a:int64,b c:float32[]?,d:e:bytes,f:float");
  EXPECT_THAT(schema, ElementsAre(ConvertFeature{"a", DType::kI64, false, false},
                                  ConvertFeature{"b c", DType::kF32, true, true},
                                  ConvertFeature{"d:e", DType::kBytes, false, false},
                                  ConvertFeature{"f", DType::kF32, false, false}));
  EXPECT_EQ(ToString(schema), "a:int64,b c:float32[]?,d:e:bytes,f:float32");
  for (const char* const bad :
       {"", "a", ":int64", "a:int", "a:bytes[]", "a:int64,a:bytes", "a:int64?[]", "a:int64,"}) {
    EXPECT_EQ(ParseConvertSchema(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace millrace::readers
