#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/record_error.h"
#include "readers/convert.h"
#include "readers/convert/bad_records.h"
#include "readers/quarantine.h"
#include "readers/repair.h"
#include "tests/messages.h"
#include "tests/readers/convert/convert_fixture.h"
#include "tests/readers/image_fixtures.h"

// Records that cannot be converted: all are told, and left out or the end of the conversion. What
// is left is compared with the conversion of an input that never had them.

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ConvertDamageTest : public ConvertFixture {
 protected:
  // Fills "in" with good images and, if `damaged`, three others between them.
  ConvertOptions Images(bool damaged, ConvertFormat to, const std::string& prefix) {
    const std::string folder = damaged ? "damaged" : "good";
    Write(folder + "/cat/1.png", MakePng(4, 5));
    Write(folder + "/cat/3.jpg", MakeJpeg(6, 7));
    Write(folder + "/dog/2.png", MakePng(8, 9));
    if (damaged) {
      Write(folder + "/cat/0.png", "<html>not found</html>");
      Write(folder + "/cat/2.jpg", "");
      Write(folder + "/dog/3.png", MakePng(8, 9).substr(0, 20));
    }
    ConvertOptions options = Options(ConvertFormat::kImages, {}, to, prefix);
    options.images = Path(folder);
    options.tell_bad = [this](const absl::Status& error) { told_.push_back(error); };
    return options;
  }
  ConvertOptions Skipping(ConvertOptions options) {
    options.on_damage = ConvertDamage::kSkip;
    options.tell_bad = [this](const absl::Status& error) { told_.push_back(error); };
    return options;
  }

  std::vector<absl::Status> told_;
};

// S-CONVERT-2.
TEST_F(ConvertDamageTest, SkipLeavesOutWhatCannotBeConvertedAndTellsIt) {
  const auto good = Run(Images(false, ConvertFormat::kTfRecord, "good"));
  for (const int threads : {1, 3}) {
    told_.clear();
    ConvertOptions options = Skipping(Images(true, ConvertFormat::kTfRecord, "bad"));
    options.overwrite = true;
    options.threads = threads;
    const auto report = Convert(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->num_records, 3u);
    EXPECT_EQ(report->num_left_out, 3u);
    EXPECT_EQ(ReadPayloads(report->files), ReadPayloads(good));
    ASSERT_THAT(told_, SizeIs(3));
    EXPECT_MESSAGE(told_[0], "html");
    EXPECT_MESSAGE(told_[1], "empty");
    EXPECT_MESSAGE(told_[2], "cut");
    const auto place = GetRecordError(told_[1]);
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->file, Path("damaged/cat/2.jpg"));
    EXPECT_EQ(place->offset, 0);
    EXPECT_EQ(place->ordinal, 0);
    EXPECT_EQ(place->reason, RecordErrorReason::kImage);
  }
  EXPECT_THAT(ReadFile(Path("out/bad.manifest.json")), HasSubstr("\"left_out\": 3"));
}

// S-CONVERT-2.
TEST_F(ConvertDamageTest, FailTellsAllOfThemAndLeavesNothing) {
  ConvertOptions options = Images(true, ConvertFormat::kTfRecord, "t");
  options.num_shards = 3;
  EXPECT_MESSAGE(Error(options));
  EXPECT_THAT(told_, SizeIs(3));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
}

// S-CONVERT-2.
TEST_F(ConvertDamageTest, AFileThatCannotBeReadIsOneOfThem) {
  ConvertOptions options = Skipping(Images(false, ConvertFormat::kTfRecord, "t"));
  std::filesystem::create_symlink("gone.jpg", Path("good/cat/link.jpg"));
  const auto report = Convert(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_records, 3u);
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_EQ(told_[0].code(), absl::StatusCode::kNotFound);
}

TEST_F(ConvertDamageTest, ATarOfImagesSkipsTheSame) {
  const auto good = Run(Images(false, ConvertFormat::kTfRecord, "good"));
  Images(true, ConvertFormat::kTfRecord, "bad");
  const std::vector<std::string> names = {"cat/0.png", "cat/1.png", "cat/2.jpg",
                                          "cat/3.jpg", "dog/2.png", "dog/3.png"};
  std::vector<std::pair<std::string, std::string>> members;
  for (const std::string& name : names) {
    members.emplace_back(name, ReadFile(Path("damaged/" + name)));
  }
  WriteTar(Path("in.tar"), members);
  ConvertOptions options = Skipping(Options(ConvertFormat::kImages, {}, ConvertFormat::kTfRecord));
  options.images = Path("in.tar");
  EXPECT_EQ(ReadPayloads(Run(options)), ReadPayloads(good));
  ASSERT_THAT(told_, SizeIs(3));
  EXPECT_EQ(GetRecordError(told_[0])->offset, 0);
  EXPECT_EQ(GetRecordError(told_[1])->ordinal, 2);
}

TEST_F(ConvertDamageTest, DamagedFramesAreSkippedAsRepairDropsThem) {
  std::vector<std::string> payloads;
  for (int i = 0; i < 40; ++i) payloads.push_back("record " + std::to_string(i));
  WriteTfRecord(Path("in.tfrecord"), payloads);
  std::string bytes = ReadFile(Path("in.tfrecord"));
  bytes[14] ^= 1;                  // in the payload of record 0
  bytes[bytes.size() / 2] ^= 1;    // anywhere
  bytes.resize(bytes.size() - 3);  // in the last frame
  const std::string in = Write("in.tfrecord", bytes);
  const auto repaired = Repair(std::vector<std::string>{in}, Path("repaired"), {}, {});
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  const auto report =
      Convert(Skipping(Options(ConvertFormat::kTfRecord, {in}, ConvertFormat::kTfRecord)));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(ReadPayloads(report->files), ReadPayloads({Path("repaired/in.tfrecord")}));
  EXPECT_EQ(report->num_left_out, repaired->at(0).dropped.size());
  EXPECT_THAT(told_, SizeIs(3));
  EXPECT_MESSAGE(Error(Options(ConvertFormat::kTfRecord, {in}, ConvertFormat::kTfRecord, "x"),
                       absl::StatusCode::kDataLoss),
                 "fail");
}

// S-CONVERT-2.
TEST_F(ConvertDamageTest, AFileWithoutARecordIsOneThatCannotBeConverted) {
  WriteTfRecord(Path("1.tfrecord"), {"a", "b"});
  WriteTfRecord(Path("3.tfrecord"), {"c"});
  const std::vector<std::string> files = {Path("1.tfrecord"), Write("2.tfrecord", "<html></html>"),
                                          Path("3.tfrecord"), Write("4.tfrecord", "x")};
  const auto report =
      Convert(Skipping(Options(ConvertFormat::kTfRecord, files, ConvertFormat::kTfRecord)));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(ReadPayloads(report->files), ElementsAre("a", "b", "c"));
  EXPECT_EQ(report->num_left_out, 2u);
  ASSERT_THAT(told_, SizeIs(2));
  EXPECT_EQ(GetRecordError(told_[0])->file, files[1]);
  EXPECT_MESSAGE(Error(Options(ConvertFormat::kTfRecord, files, ConvertFormat::kTfRecord, "x"),
                       absl::StatusCode::kDataLoss));
}

TEST_F(ConvertDamageTest, LookingForTheFilesThatCannotBeConvertedEndsWhenCancelled) {
  WriteTfRecord(Path("1.tfrecord"), {"a", "b"});
  const std::vector<std::string> files = {Path("1.tfrecord"), Write("2.tfrecord", "<html></html>"),
                                          Write("3.tfrecord", "x")};
  ConvertOptions options =
      Skipping(Options(ConvertFormat::kTfRecord, files, ConvertFormat::kTfRecord));
  int asked = 0;
  options.cancels = [&] { return ++asked == 2; };
  EXPECT_EQ(Convert(options).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(told_, testing::IsEmpty());
}

// What lies behind the last whole record takes it along.
TEST_F(ConvertDamageTest, StrayBytesBehindARecordAreNoChangeOfTheFile) {
  WriteTfRecord(Path("in.tfrecord"), {"a", "b"});
  Write("in.tfrecord", ReadFile(Path("in.tfrecord")) + "xyz");
  Run(Skipping(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kText)));
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_MESSAGE(told_[0]);
}

// S-CONVERT-2.
TEST_F(ConvertDamageTest, RowsThatAreNotAsDeclaredAreLeftOut) {
  const std::string in = Write("in.csv", "1,a\nx,b\n3,c,surplus\n4,d\n");
  ConvertOptions options = Skipping(Options(ConvertFormat::kCsv, {in}, ConvertFormat::kJsonLines));
  options.schema = Schema("n:int64,t:bytes");
  EXPECT_EQ(ReadFile(Run(options).at(0)), "{\"n\":1,\"t\":\"a\"}\n{\"n\":4,\"t\":\"d\"}\n");
  ASSERT_THAT(told_, SizeIs(2));
  EXPECT_MESSAGE(told_[0], "number");
  EXPECT_MESSAGE(told_[1], "cells");
}

// S-CONVERT-2.
TEST_F(ConvertDamageTest, WhatTheOutputCannotHoldIsLeftOut) {
  const std::string in = Write("in.txt", "one\ntwo\nthree\nsix\n");
  const auto shards =
      Run(Skipping(Options(ConvertFormat::kText, {in}, ConvertFormat::kFixedLength)));
  EXPECT_EQ(ReadFile(shards.at(0)), "onetwosix");
}

// Outputs that look at the first record look at the first good one.
TEST_F(ConvertDamageTest, TheFirstGoodRecordSaysWhatTheOthersAre) {
  ExampleBuilder good;
  good.AddInt("a", 7);
  WriteTfRecord(Path("in.tfrecord"), {"\xff\xff", good.Serialize(), good.Serialize()});
  const auto shards =
      Run(Skipping(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kCsv)));
  EXPECT_EQ(ReadFile(shards.at(0)), "a\n7\n7\n");
  EXPECT_THAT(told_, SizeIs(1));
}

TEST_F(ConvertDamageTest, NothingIsKeptOfAFirstRecordThatWasRefused) {
  ExampleBuilder list;
  list.AddInts("a", std::vector<int64_t>{1, 2});
  ExampleBuilder good;
  good.AddInt("b", 1);
  const auto shards = Run(Skipping(
      Options(ConvertFormat::kTfRecord, {Examples({list, good, list})}, ConvertFormat::kCsv)));
  EXPECT_EQ(ReadFile(shards.at(0)), "b\n1\n");
  EXPECT_THAT(told_, SizeIs(2));
}

// The output can begin with it, but cannot hold it.
TEST_F(ConvertDamageTest, ARecordThatTheOutputCannotHoldDoesNotSayWhatTheOthersAre) {
  ExampleBuilder infinite;
  infinite.AddFloat("a", std::numeric_limits<float>::infinity());
  ExampleBuilder good;
  good.AddInt("b", 1);
  const auto shards = Run(Skipping(Options(
      ConvertFormat::kTfRecord, {Examples({infinite, good, good})}, ConvertFormat::kJsonLines)));
  EXPECT_EQ(ReadFile(shards.at(0)), "{\"b\":1}\n{\"b\":1}\n");
  EXPECT_THAT(told_, SizeIs(1));
}

// S-CONVERT-2.
TEST_F(ConvertDamageTest, WithoutAGoodRecordNothingIsWritten) {
  const std::string in = Write("in.csv", "x\ny\n");
  for (const ConvertFormat to : {ConvertFormat::kTfRecord, ConvertFormat::kFixedLength}) {
    told_.clear();
    ConvertOptions options = Skipping(Options(ConvertFormat::kCsv, {in}, to));
    options.schema = Schema("n:int64");
    if (to == ConvertFormat::kFixedLength) options.feature = "n";
    EXPECT_MESSAGE(Error(options), "none");
    EXPECT_THAT(told_, SizeIs(2));
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
  }
}

// S-CONVERT-2. Options that fit no record do not read all the night.
TEST_F(ConvertDamageTest, AThousandBadRecordsAndNoGoodOneAreEnough) {
  std::string rows;
  for (int i = 0; i < 3000; ++i) rows += "x\n";
  ConvertOptions options =
      Skipping(Options(ConvertFormat::kCsv, {Write("in.csv", rows)}, ConvertFormat::kTfRecord));
  options.schema = Schema("n:int64");
  EXPECT_MESSAGE(Error(options));
  EXPECT_THAT(told_, SizeIs(1000));
}

// S-CONVERT-2.
TEST_F(ConvertDamageTest, AQuarantineNamesThemForVerify) {
  ConvertOptions options = Skipping(Images(true, ConvertFormat::kTfRecord, "t"));
  options.quarantine_file = Path("bad.jsonl");
  Run(options);
  const auto places = ReadQuarantine(Path("bad.jsonl"));
  ASSERT_TRUE(places.ok()) << places.status();
  ASSERT_THAT(*places, SizeIs(3));
  for (const PlaceCheck& check : VerifyPlaces(*places)) {
    EXPECT_TRUE(check.damaged) << check.listed.file << ": " << check.message;
  }
}

// Of shards that a process wrote before it was killed, this one sees no record.
TEST_F(ConvertDamageTest, WhatAnEarlierProcessLeftOutCountsAmongTheBad) {
  const ConvertOptions options = Skipping(Options(ConvertFormat::kText, {}, ConvertFormat::kText));
  const auto none = internal::BadRecords::Open(options).value();
  none->AddEarlier(0, 2);
  EXPECT_MESSAGE(none->Verdict());
  EXPECT_TRUE(none->Add(absl::DataLossError("x")).ok());
  EXPECT_MESSAGE(none->Verdict(), "first");
  const auto some = internal::BadRecords::Open(options).value();
  some->AddEarlier(1, 2);
  EXPECT_TRUE(some->Verdict().ok());
  const auto many = internal::BadRecords::Open(options).value();
  many->AddEarlier(0, internal::BadRecords::kMostAtFirst - 1);
  EXPECT_EQ(many->Add(absl::DataLossError("x")).code(), absl::StatusCode::kDataLoss);
}

TEST_F(ConvertDamageTest, AConversionThatGoesOnWithoutAGoodRecordSaysHowManyThereWere) {
  ConvertOptions options = Skipping(
      Options(ConvertFormat::kCsv, {Write("in.csv", "x\nx\nx\nx\n")}, ConvertFormat::kTfRecord));
  options.schema = Schema("n:int64");
  options.num_shards = 2;
  KillConversion(options, 3);  // in the second shard
  EXPECT_MESSAGE(Error(options));
  EXPECT_THAT(told_, SizeIs(2));
}

TEST_F(ConvertDamageTest, AConversionThatGoesOnCountsWhatWasLeftOutBefore) {
  ConvertOptions options = Skipping(Images(true, ConvertFormat::kTfRecord, "t"));
  options.num_shards = 3;  // each of two images, one of them damaged
  KillConversion(options, 5);
  const auto report = Convert(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_records, 3u);
  EXPECT_EQ(report->num_left_out, 3u);
  EXPECT_THAT(told_, SizeIs(1)) << "the others were told by the process that was killed";
  options.output_prefix = folder_ / "out/whole";
  EXPECT_EQ(ReadPayloads(report->files), ReadPayloads(Run(options)));
}

}  // namespace
}  // namespace millrace::readers
