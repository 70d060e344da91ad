#include <filesystem>
#include <map>
#include <random>

#include "readers/damage/parts.h"
#include "tests/messages.h"
#include "tests/readers/damage/shard_parts_fixture.h"
#include "tests/readers/image_fixtures.h"
#include "tests/sanitized.h"

// Verifying and repairing what is no TFRecord. The oracle for tars is libarchive, which writes them
// and reads the repaired ones.

namespace millrace::readers {
namespace {

using testing::ElementsAre;

TEST_F(ShardPartsTest, NamesTellContainers) {
  const std::map<std::string, ContainerKind> kinds = {
      {"a.tfrecord", ContainerKind::kTfRecord},
      {"a", ContainerKind::kTfRecord},
      {"a.csv.gz", ContainerKind::kCsv},
      {"b/a.tsv", ContainerKind::kCsv},
      {"a.tar", ContainerKind::kTar},
      {"a.jsonl.zst", ContainerKind::kText},
      {"t10k-images-idx3-ubyte.gz", ContainerKind::kIdx}};
  for (const auto& [name, kind] : kinds) EXPECT_EQ(ContainerOfName(name).kind, kind) << name;
  EXPECT_EQ(ContainerOfName("a.tsv.gz").delimiter, '\t');
}

TEST_F(ShardPartsTest, WholeFilesOfEachContainerAreFine) {
  EXPECT_EQ(Check(Write("a.txt", "one\ntwo\n\nfour")).num_records, 4u);
  EXPECT_EQ(Check(Write("a.csv", "1,2\n\"3\n3\",4\n")).num_records, 2u);
  EXPECT_EQ(Check(Write("a.csv.gz", Deflated("1,2\n3,4\n", Wrapper::kGzip))).num_records, 2u);
  EXPECT_EQ(Check(Write("a.tar", Tar({{"a.x", "1"}, {"a.y", "2"}, {"b.x", "3"}}))).num_records, 2u);
  EXPECT_EQ(Check(Write("a-ubyte", Idx(8, {3, 2}, "aabbcc"))).num_records, 3u);
  VerifyOptions fixed;
  fixed.container = FixedLength(1, 2, 1);
  const VerifyReport report = Check(Write("a.bin", "haabbf"), fixed);
  EXPECT_EQ(report.num_records, 2u);
  EXPECT_EQ(report.payload_bytes, 4u);
  EXPECT_TRUE(report.ok());
}

TEST_F(ShardPartsTest, BadRowsAreToldAndDropped) {
  const std::string path = Write("a.csv", "1,2\n3\n5,6\n\"7\"x,8\n9,10\n");
  const VerifyReport report = Check(path);
  EXPECT_EQ(report.num_records, 3u);
  ASSERT_EQ(report.places.size(), 2u);
  EXPECT_EQ(report.places[0].error.offset, 4);
  EXPECT_EQ(report.places[0].error.ordinal, 1);
  EXPECT_EQ(report.places[0].error.reason, Reason::kExample);
  EXPECT_MESSAGE(report.places[0].message);
  EXPECT_EQ(report.places[1].error.offset, 10);
  EXPECT_EQ(report.places[1].error.ordinal, 3);
  EXPECT_EQ(Repaired(path).value(), "1,2\n5,6\n9,10\n");
}

// The row behind it would be part of the cell.
TEST_F(ShardPartsTest, AQuoteThatIsNotClosedCostsItsOwnLine) {
  const std::string open = Write("open.csv", "1,2\n3,\"4\n5,6\n7,8\n");
  const VerifyReport report = Check(open);
  EXPECT_EQ(report.num_records, 3u);
  ASSERT_EQ(report.places.size(), 1u);
  EXPECT_EQ(report.places[0].error.offset, 4);
  EXPECT_EQ(report.places[0].error.reason, Reason::kTruncatedPayload);
  EXPECT_EQ(Repaired(open).value(), "1,2\n5,6\n7,8\n");
  const std::string closed = Write("closed.csv", "1,2\n3,\"4\n5,6\n7,\"8\"\n9,10\n");
  EXPECT_EQ(Repaired(closed).value(), "1,2\n5,6\n7,\"8\"\n9,10\n");
}

TEST_F(ShardPartsTest, TheRowThatNamesColumnsStays) {
  RepairOptions options;
  options.container = Kind(ContainerKind::kCsv);
  options.container->has_header = true;
  EXPECT_EQ(Repaired(Write("a", "x,y\n1,2\n3\n"), options).value(), "x,y\n1,2\n");
  EXPECT_EQ(Repaired(Write("b", "x,y\n"), options).value(), "x,y\n");
}

// A line with an odd number of quotes takes those behind it along, up to the next such line.
TEST_F(ShardPartsTest, EveryLineOfManyThatTakeTheNextAlongIsToldAlone) {
  constexpr uint64_t kLines = 20'000;
  std::string bytes;
  for (uint64_t i = 0; i < kLines; ++i) bytes += "a\",\"\n";
  const std::string good = "1,2\n3,4\n";
  const std::string path = Write("a.csv", good + bytes + good);
  const VerifyReport report = Check(path);
  EXPECT_EQ(report.num_damaged, kLines);
  EXPECT_EQ(report.num_records, 4u);
  EXPECT_EQ(Repaired(path).value(), good + good);
}

TEST_F(ShardPartsTest, DamagedStreamsKeepWhatCameBefore) {
  const std::string whole = Deflated("one\ntwo\nthree\n", Wrapper::kGzip);
  const std::string path = Write("a.txt.gz", whole.substr(0, whole.size() - 8));  // no trailer
  const VerifyReport report = Check(path);
  EXPECT_EQ(report.num_records, 3u) << "the last line ends before the stream does";
  ASSERT_EQ(report.places.size(), 1u);
  EXPECT_EQ(report.places[0].error.reason, Reason::kCompressedCut);
  EXPECT_EQ(report.places[0].error.file, path);
  EXPECT_EQ(report.places[0].error.offset, 14);
  EXPECT_EQ(report.places[0].error.ordinal, 3);
  const auto repaired = Repaired(path);
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  EXPECT_EQ(Inflated(*repaired), "one\ntwo\nthree\n");
}

TEST_F(ShardPartsTest, ALineThatTheStreamBreaksInIsLeftOut) {
  for (const char* name : {"a.txt.gz", "a.csv.gz"}) {
    const std::string whole = Deflated("one\ntwo\nthr", Wrapper::kGzip);
    const std::string path = Write(name, whole.substr(0, whole.size() - 8));
    const VerifyReport report = Check(path);
    EXPECT_EQ(report.num_records, 2u) << name;
    ASSERT_EQ(report.places.size(), 1u) << name;
    EXPECT_EQ(report.places[0].error.offset, 8) << name;
    EXPECT_EQ(Inflated(Repaired(path).value()), "one\ntwo\n") << name;
  }
}

TEST_F(ShardPartsTest, WhatNothingCanBeLeftOutOfSaysSo) {
  const std::string idx = Write("a-ubyte", Idx(8, {3, 2}, "aabb"));
  const VerifyReport report = Check(idx);
  ASSERT_EQ(report.places.size(), 1u);
  EXPECT_EQ(report.places[0].error.reason, Reason::kTruncatedPayload);
  const absl::Status refused = Repaired(idx).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(refused);
}

TEST_F(ShardPartsTest, RowsThatAQuarantineNamesAreLeftOut) {
  const std::string path = Write("a.csv", "1,2\n3,4\n5,6\n");
  RepairOptions options;
  options.listed = {{path, 4, 1, 70, Reason::kFeature}};
  EXPECT_EQ(Repaired(path, options).value(), "1,2\n5,6\n");
}

TEST_F(ShardPartsTest, ASampleWithADamagedHeaderIsLeftOut) {
  Named files;
  for (char c = 'a'; c <= 'f'; ++c)
    files.insert(files.end(), {{{c, '.', 'x'}, "1"}, {{c, '.', 'y'}, "2"}});
  std::string bytes = Tar(files);
  bytes[5 * 1024 + 3] ^= 1;  // the name of c.y
  const std::string path = Write("a.tar", bytes);
  const VerifyReport report = Check(path);
  ASSERT_EQ(report.places.size(), 2u) << "c, and d, which may have lost a member";
  EXPECT_EQ(report.places[0].error.offset, 4 * 1024);
  EXPECT_EQ(report.places[0].error.ordinal, 2);
  EXPECT_EQ(report.places[0].error.reason, Reason::kLengthCrc);
  EXPECT_EQ(report.places[1].error.offset, 6 * 1024);
  EXPECT_EQ(report.num_records, 4u);
  const auto repaired = Repaired(path);
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  Named want(files.begin(), files.begin() + 4);
  want.insert(want.end(), files.begin() + 8, files.end());
  EXPECT_EQ(Untar(*repaired), want);
}

TEST_F(ShardPartsTest, ArchivesOneAfterTheOtherBecomeOne) {
  const Named one = {{"a.x", "1"}, {"b.x", "2"}};
  const Named two = {{"c.x", "3"}};
  EXPECT_EQ(Untar(Repaired(Write("a.tar", Tar(one) + Tar(two))).value()),
            (Named{one[0], one[1], two[0]}));
}

// Of samples that lie more than one away from the damage, none is lost and none is changed.
TEST_F(ShardPartsTest, DrawnDamageOfATarCostsTheSamplesAroundIt) {
  constexpr size_t kSamples = 20;
  Named files;
  std::mt19937_64 random(7);
  for (size_t i = 0; i < kSamples; ++i) {
    const std::string key = std::to_string(100 + i);
    files.emplace_back(key + ".a", std::string(1 + random() % 1200, static_cast<char>('a' + i)));
    files.emplace_back(key + ".b", key);
  }
  const std::string good = Tar(files);
  std::vector<size_t> begins;
  size_t at_file = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i % 2 == 0) begins.push_back(at_file);
    at_file += 512 + (files[i].second.size() + 511) / 512 * 512;
  }
  begins.push_back(at_file);
  int num_seen = 0;
  for (int round = 0; round < Rounds(500); ++round) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, round);
    std::string bytes = good;
    const size_t sample = random() % kSamples;
    const size_t at = round % 2 == 0
                          ? begins[sample] + random() % 512
                          : begins[sample] + random() % (begins[sample + 1] - begins[sample]);
    if (at % 512 == 154 || at % 512 == 155)
      continue;            // ends a checksum; readers differ in what may
    size_t last = sample;  // that is not where it was
    if (round % 5 == 4) {
      bytes.resize(at);
      last = kSamples;
    } else if (round % 5 == 3) {
      bytes.erase(at, 512);
      last = sample + 1;
    } else {
      bytes[at] ^= static_cast<char>(1 << random() % 8);
    }
    const std::string path = Write("a.tar", bytes);
    num_seen += Check(path).ok() ? 0 : 1;
    const auto repaired = Repaired(path);
    ASSERT_TRUE(repaired.ok()) << repaired.status();
    const Named there = Untar(*repaired);
    for (size_t i = 0; i < kSamples; ++i) {
      if (i + 1 >= sample && i <= last + 1) continue;
      ASSERT_THAT(there, testing::Contains(files[2 * i]));
      ASSERT_THAT(there, testing::Contains(files[2 * i + 1]));
    }
    ASSERT_TRUE(Check(Write("b.tar", *repaired)).ok());
  }
  EXPECT_GT(num_seen, Rounds(300));
}

TEST_F(ShardPartsTest, HeadersOfImagesInAFolderAreRead) {
  std::filesystem::create_directories(folder_ / "images/cat");
  Write("images/cat/1.png", MakePng(2, 3));
  Write("images/cat/2.jpg", "no image");
  const VerifyReport report = Check(folder_ / "images");
  EXPECT_EQ(report.num_records, 1u);
  ASSERT_EQ(report.places.size(), 1u);
  EXPECT_EQ(report.places[0].error.file, folder_ / "images/cat/2.jpg");
  EXPECT_EQ(report.places[0].error.reason, Reason::kImage);
}

}  // namespace
}  // namespace millrace::readers
