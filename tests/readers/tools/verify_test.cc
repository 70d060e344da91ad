#include "readers/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "readers/example_builder.h"
#include "readers/record_writer.h"
#include "tests/messages.h"
#include "tests/temp_files.h"

namespace millrace::readers {
namespace {

class VerifyTest : public testing::Test {
 protected:
  // Records of 100 bytes, so that record i stands at offset 116 * i.
  std::string Write(const std::string& name, size_t num_records,
                    Compression compression = Compression::kNone) {
    const std::string path = folder_ / name;
    auto writer = TfRecordWriter::Open(path, {.compression = compression});
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (size_t i = 0; i < num_records; ++i) {
      EXPECT_TRUE((*writer)->Write(std::string(100, static_cast<char>('a' + i))).ok());
    }
    EXPECT_TRUE((*writer)->Close().ok());
    return path;
  }
  static void Flip(const std::string& path, size_t offset) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 1));
    EXPECT_TRUE(file.good());
  }
  static VerifyReport Check(std::vector<std::string> files, const VerifyOptions& options = {}) {
    const auto report = Verify(files, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return *report;
  }

  const TempFolder folder_;
};

TEST_F(VerifyTest, WholeFilesAreFine) {
  const VerifyReport report = Check({Write("a", 3), Write("b", 2, Compression::kGzip),
                                     Write("c", 1, Compression::kZlib), Write("d", 0)});
  EXPECT_TRUE(report.ok()) << report.places[0].message;
  EXPECT_EQ(report.num_files, 4u);
  EXPECT_EQ(report.num_records, 6u);
  EXPECT_EQ(report.payload_bytes, 600u);
}

TEST_F(VerifyTest, EveryDamagedPayloadIsFound) {
  const std::string path = Write("a", 5);
  Flip(path, 116 + 50);
  Flip(path, 3 * 116 + 50);
  const VerifyReport report = Check({path});
  EXPECT_EQ(report.num_records, 3u);
  EXPECT_EQ(report.num_damaged_files, 1u);
  ASSERT_EQ(report.places.size(), 2u);
  EXPECT_EQ(report.places[0].error.file, path);
  EXPECT_EQ(report.places[0].error.ordinal, 1);
  EXPECT_EQ(report.places[0].error.offset, 116);
  EXPECT_EQ(report.places[0].error.reason, RecordErrorReason::kDataCrc);
  EXPECT_EQ(report.places[1].error.ordinal, 3);
}

TEST_F(VerifyTest, LostFramingGoesOnWithTheNextGoodRecord) {
  const std::string a = Write("a", 5);
  Flip(a, 2 * 116);  // a length
  const std::string b = Write("b", 5);
  std::filesystem::resize_file(b, 4 * 116 + 30);
  const std::string c = Write("c", 5);
  Flip(c, 50);
  const VerifyReport report = Check({a, b, c});
  EXPECT_EQ(report.num_records, 4u + 4u + 4u);
  ASSERT_EQ(report.places.size(), 3u);
  EXPECT_EQ(report.places[0].error.reason, RecordErrorReason::kLengthCrc);
  EXPECT_EQ(report.places[0].error.ordinal, 2);
  EXPECT_EQ(report.places[0].error.offset, 2 * 116);
  EXPECT_MESSAGE(report.places[0].message);
  EXPECT_EQ(report.places[1].error.reason, RecordErrorReason::kTruncatedPayload);
  EXPECT_EQ(report.places[1].error.ordinal, 4);
  EXPECT_EQ(report.places[2].error.reason, RecordErrorReason::kDataCrc);
}

TEST_F(VerifyTest, CutGzipIsFound) {
  const std::string path = Write("a", 5, Compression::kGzip);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  const VerifyReport report = Check({path});
  ASSERT_EQ(report.places.size(), 1u);
  EXPECT_EQ(report.places[0].error.reason, RecordErrorReason::kCompressedCut);
}

TEST_F(VerifyTest, PayloadsAreParsedWhenAsked) {
  const std::string path = folder_ / "a";
  auto writer = TfRecordWriter::Open(path);
  ExampleBuilder example;
  example.AddInt("label", 1);
  EXPECT_TRUE((*writer)->Write(example.Serialize()).ok());
  EXPECT_TRUE((*writer)->Write("\x0a\x05").ok());
  EXPECT_TRUE((*writer)->Write(example.Serialize()).ok());
  EXPECT_TRUE((*writer)->Close().ok());
  EXPECT_TRUE(Check({path}).ok());
  const VerifyReport report = Check({path}, {.check_examples = true});
  EXPECT_EQ(report.num_records, 2u);
  ASSERT_EQ(report.places.size(), 1u);
  EXPECT_EQ(report.places[0].error.reason, RecordErrorReason::kExample);
  EXPECT_EQ(report.places[0].error.ordinal, 1);
  EXPECT_MESSAGE(report.places[0].message);
}

TEST_F(VerifyTest, PlacesAreKeptUpToTheLimitAndAllCounted) {
  const std::string path = Write("a", 5);
  for (size_t i = 0; i < 5; ++i) Flip(path, i * 116 + 50);
  const VerifyReport report = Check({path}, {.max_places = 2});
  EXPECT_EQ(report.num_damaged, 5u);
  EXPECT_EQ(report.places.size(), 2u);
}

TEST_F(VerifyTest, UnreadableFilesAreReportedAndTheRestIsRead) {
  const VerifyReport report = Check({folder_ / "none", Write("a", 1)});
  EXPECT_EQ(report.num_records, 1u);
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.num_damaged, 0u);
  ASSERT_EQ(report.unreadable.size(), 1u);
  EXPECT_EQ(report.unreadable[0].file, folder_ / "none");
  EXPECT_EQ(Verify({}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(VerifyTest, ProgressEndsAtAllBytes) {
  const std::vector<std::string> files = {Write("a", 5), Write("b", 5, Compression::kGzip)};
  int64_t last = 0;
  int64_t total = 0;
  const auto report = Verify(files, {}, [&](int64_t done, int64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  });
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(last, total);
  EXPECT_EQ(static_cast<uint64_t>(total),
            std::filesystem::file_size(files[0]) + std::filesystem::file_size(files[1]));
}

// S-SOURCE-10.
TEST_F(VerifyTest, RowsOfNamesAreComparedAndMissed) {
  const std::string good = folder_ / "a.csv";
  const std::string bad = folder_ / "b.csv";
  VerifyOptions options;
  options.container = {.kind = ContainerKind::kCsv, .has_header = true};
  WriteFile(good, "a,b\n1,2\n");
  WriteFile(bad, "b,\"a\"\n3,4\n");
  EXPECT_TRUE(Check({good, bad}, options).ok());
  for (const auto& [bytes, num_records] :
       std::vector<std::pair<std::string, uint64_t>>{{"a\n1\n", 2},
                                                     {"a,c\n1,2\n", 2},
                                                     {"a,b,a\n1,2,3\n", 2},
                                                     {"", 1},
                                                     {"\xef\xbb\xbf", 1},
                                                     {"\n", 1},
                                                     {"a,\"b\"c\n1,2\n", 2}}) {
    WriteFile(bad, bytes);
    const VerifyReport report = Check({good, bad}, options);
    EXPECT_EQ(report.num_records, num_records) << bytes;
    ASSERT_EQ(report.num_damaged, 1u) << bytes;
    EXPECT_EQ(report.places[0].error.file, bad);
    EXPECT_MESSAGE(report.places[0].message);
  }
}

// All that a report says.
std::string TextOf(const VerifyReport& report) {
  std::string text =
      absl::StrCat(report.num_files, " ", report.num_damaged_files, " ", report.num_records, " ",
                   report.payload_bytes, " ", report.num_damaged, "\n");
  for (const DamagedPlace& place : report.places) {
    absl::StrAppend(&text, place.error.ordinal, " ", place.error.offset, " ", place.message, "\n");
  }
  for (const UnreadableFile& file : report.unreadable) absl::StrAppend(&text, file.message, "\n");
  for (const std::string& note : report.notes) absl::StrAppend(&text, note, "\n");
  return text;
}

TEST_F(VerifyTest, ThreadsChangeNothingInTheReport) {
  std::vector<std::string> shards = {folder_ / "page.txt", folder_ / "none"};
  WriteFile(shards[0], "<!DOCTYPE html>\n<html></html>\n");
  std::vector<std::string> tables;
  for (size_t i = 0; i < 24; ++i) {
    shards.push_back(Write(absl::StrCat("shard-", i), 24 - i));
    if (i % 3 == 0) Flip(shards.back(), 116 * (i / 2) % (116 * (24 - i)));
    tables.push_back(folder_ / absl::StrCat(i, ".csv"));
    WriteFile(tables.back(), i % 5 == 4 ? "a,c\n1,2\n" : i % 7 == 6 ? "" : "b,a\n1,2\n3\n");
  }
  const ContainerOptions with_names = {.kind = ContainerKind::kCsv, .has_header = true};
  for (const size_t places : {1000, 5}) {
    VerifyOptions options = {.max_places = places, .threads = 1};
    const std::string of_shards = TextOf(Check(shards, options));
    options.container = with_names;
    const std::string of_tables = TextOf(Check(tables, options));
    for (options.threads = 2; options.threads < 9; options.threads += 3) {
      EXPECT_EQ(TextOf(Check(tables, options)), of_tables);
      VerifyOptions by_name = options;
      by_name.container.reset();
      EXPECT_EQ(TextOf(Check(shards, by_name)), of_shards);
    }
  }
}

// S-SOURCE-11.
TEST_F(VerifyTest, FilesOfOtherKindsAreNamedInEveryContainer) {
  const std::string page = "<!DOCTYPE html>\n<html></html>\n";
  const std::string tiff = std::string("II*\0\x08\0\0\0", 8) + "abcd\n";
  for (const char* name : {"x.csv", "x.txt", "x.jsonl", "x.tar", "x.tfrecord", "x-ubyte"}) {
    for (const auto& [bytes, kind] : {std::pair(page, "HTML"), std::pair(tiff, "tiff")}) {
      WriteFile(folder_ / name, bytes);
      const VerifyReport report = Check({folder_ / name});
      if (bytes == page && std::string_view(name) == "x.txt") {
        EXPECT_TRUE(report.ok()) << "lines of HTML are lines";
        EXPECT_EQ(report.num_records, 2u);
        ASSERT_EQ(report.notes.size(), 1u);
        EXPECT_MESSAGE(report.notes[0], "note");
        continue;
      }
      ASSERT_FALSE(report.ok()) << name << " " << kind;
      EXPECT_THAT(report.places[0].message, testing::HasSubstr(kind)) << name;
    }
  }
  WriteFile(folder_ / "x.txt", "BM RIFF PAR1 PK GIF89a\n<html>\n");
  EXPECT_TRUE(Check({folder_ / "x.txt"}).ok());
}

}  // namespace
}  // namespace millrace::readers
