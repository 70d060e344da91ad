#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/record_error.h"
#include "readers/convert.h"
#include "tests/messages.h"
#include "tests/readers/convert/convert_fixture.h"

// Samples that a format cannot hold, and damaged ones.

namespace millrace::readers {
namespace {

class ConvertLimitsTest : public ConvertFixture {
 protected:
  // Of a file with a good Example and this one.
  absl::Status ErrorOf(const ExampleBuilder& example, ConvertFormat to,
                       const std::string& schema = "") {
    ExampleBuilder good;
    good.AddInt("a", 1);
    ConvertOptions options =
        Options(ConvertFormat::kTfRecord, {Examples({good, example})}, to, "error");
    if (!schema.empty()) options.schema = Schema(schema);
    return Error(options);
  }
};

TEST_F(ConvertLimitsTest, DamagedTextIsDataLossAtTheRecord) {
  const std::string in = Write("in.jsonl", "{\"a\":1}\n{\"a\":1\n");
  ConvertOptions options = Options(ConvertFormat::kJsonLines, {in}, ConvertFormat::kTfRecord);
  options.schema = Schema("a:int64");
  const auto report = Convert(options);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kDataLoss);
  const auto error = GetRecordError(report.status());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file, in);
  EXPECT_EQ(error->ordinal, 1);
  WriteTfRecord(Path("in.tfrecord"), {"\xff\xff"});
  EXPECT_MESSAGE(
      Error(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kCsv),
            absl::StatusCode::kDataLoss));
}

TEST_F(ConvertLimitsTest, WhatAFormatCannotHoldIsAnErrorAtTheRecord) {
  using F = ConvertFormat;
  ExampleBuilder two;
  two.AddInts("a", std::vector<int64_t>{1, 2});
  for (const F format : {F::kCsv, F::kJsonLines, F::kTar}) {
    EXPECT_MESSAGE(ErrorOf(two, format));
  }
  ExampleBuilder more;
  more.AddInt("a", 1);
  more.AddInt("b", 1);
  EXPECT_MESSAGE(ErrorOf(more, F::kCsv));
  ExampleBuilder none;
  EXPECT_MESSAGE(ErrorOf(none, F::kCsv));
  EXPECT_MESSAGE(ErrorOf(none, F::kCsv, "a:int64?"));
  EXPECT_MESSAGE(ErrorOf(none, F::kTar));
  ExampleBuilder other;
  other.AddFloat("a", 1);
  EXPECT_MESSAGE(ErrorOf(other, F::kJsonLines));
  ExampleBuilder nan;
  nan.AddInt("a", 1);
  nan.AddFloat("f", std::bit_cast<float>(0x7fc00123u));
  EXPECT_MESSAGE(ErrorOf(nan, F::kJsonLines, "a:int64,f:float32?"));
  EXPECT_MESSAGE(ErrorOf(nan, F::kCsv, "a:int64,f:float32?"));
  ExampleBuilder binary;
  binary.AddInt("a", 1);
  binary.AddBytes("b", "\xff");
  EXPECT_MESSAGE(ErrorOf(binary, F::kJsonLines, "a:int64,b:bytes?"));
  ExampleBuilder key;
  key.AddInt("a", 1);
  for (const std::string bad : {"", "a.b", "/a", "../a", "a/", "x/.y"}) {
    key.AddBytes("__key__", bad);
    EXPECT_MESSAGE(ErrorOf(key, F::kTar)) << bad;
  }
  ExampleBuilder same;
  same.AddInt("a", 1);
  same.AddBytes("__key__", "k");
  EXPECT_MESSAGE(Error(Options(F::kTfRecord, {Examples({same, same})}, F::kTar, "same")));
}

// Flipped bits, cuts and swaps of what is read: an error that leaves nothing, or samples as good as
// any.
TEST_F(ConvertLimitsTest, DamagedInputIsAnErrorOrGoodSamples) {
  ExampleBuilder example;
  example.AddBytes("__key__", "a/b");
  example.AddBytes("text", "größe, \"quoted\"");
  example.AddInt("cls", -77);
  example.AddFloat("f", 0.125f);
  ExampleBuilder other = example;
  other.AddBytes("__key__", "c");
  const std::string in = Examples({example, other, example});
  const std::vector<ConvertFeature> schema = Schema("text:bytes,cls:int64?,f:float32?");
  std::mt19937_64 random(11);
  int errors = 0;
  for (const ConvertFormat format :
       {ConvertFormat::kCsv, ConvertFormat::kJsonLines, ConvertFormat::kTar}) {
    const auto good = Run(Options(ConvertFormat::kTfRecord, {in}, format,
                                  "good" + std::string(ConvertFormatName(format))));
    const std::string bytes = ReadFile(good.at(0));
    for (int i = 0; i < 60; ++i) {
      std::string damaged = bytes;
      const size_t at = random() % damaged.size();
      if (i % 3 == 0) damaged[at] = static_cast<char>(damaged[at] ^ 1 << random() % 8);
      if (i % 3 == 1) damaged.erase(at, 1 + random() % 600);
      if (i % 3 == 2) std::swap(damaged[at], damaged[random() % damaged.size()]);
      ConvertOptions options =
          Options(format, {Write("damaged", damaged)}, ConvertFormat::kJsonLines, "bad");
      options.schema = schema;
      options.container.has_header = format == ConvertFormat::kCsv;
      options.overwrite = true;
      std::filesystem::remove_all(folder_ / "out");
      std::filesystem::create_directory(folder_ / "out");
      const auto report = Convert(options);
      if (!report.ok()) {
        ++errors;
        EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out")) << report.status();
        continue;
      }
      std::istringstream lines(ReadFile(report->files[0]));
      std::string line;
      uint64_t count = 0;
      for (; std::getline(lines, line); ++count) {
        EXPECT_TRUE(nlohmann::json::accept(line)) << line;
      }
      EXPECT_EQ(count, report->num_records);
    }
  }
  EXPECT_GT(errors, 30);
}

// What only Examples hold goes through from TFRecord to TFRecord as it is.
TEST_F(ConvertLimitsTest, FeaturesWithoutListsStayInTfRecord) {
  WriteTfRecord(Path("in.tfrecord"), {Wrap(Entry("empty", ""))});
  const auto copied =
      Run(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kTfRecord));
  EXPECT_EQ(ReadFile(copied[0]), ReadFile(Path("in.tfrecord")));
  EXPECT_MESSAGE(
      Error(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kTar, "x")));
}

// One without a list that nobody asked for is in nobody's way.
TEST_F(ConvertLimitsTest, FeaturesWithoutListsAreAnErrorOnlyWhereTheyAreTaken) {
  oracle::Example example;
  (*example.mutable_features()->mutable_feature())["empty"];
  (*example.mutable_features()->mutable_feature())["a"].mutable_bytes_list()->add_value("x");
  WriteTfRecord(Path("in.tfrecord"), {example.SerializeAsString()});
  ConvertOptions options =
      Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kTfRecord);
  options.features = {{"a", "b"}};
  EXPECT_THAT(ReadExamples(Run(options)).at(0).at("b").bytes, testing::ElementsAre("x"));
  options.overwrite = true;
  options.features = {{"a", "b"}, {"empty", "c"}};
  EXPECT_MESSAGE(Error(options));
  options.features.clear();
  options.to = ConvertFormat::kText;
  options.feature = "a";
  EXPECT_EQ(ReadFile(Run(options).at(0)), "x\n");
  options.feature = "empty";
  EXPECT_MESSAGE(Error(options));
}

// The manifest's columns are what --schema takes.
TEST_F(ConvertLimitsTest, ColumnsHaveNamesThatASchemaCanSay) {
  ExampleBuilder comma;
  comma.AddInt("a:int64,b", 1);
  ExampleBuilder unnamed;
  unnamed.AddInt("", 1);
  for (const ConvertFormat format : {ConvertFormat::kCsv, ConvertFormat::kJsonLines}) {
    for (const ExampleBuilder& example : {comma, unnamed}) {
      EXPECT_MESSAGE(Error(Options(ConvertFormat::kTfRecord, {Examples({example})}, format, "x")));
    }
  }
  ExampleBuilder colon;
  colon.AddInt("a:b", 1);
  Run(Options(ConvertFormat::kTfRecord, {Examples({colon})}, ConvertFormat::kCsv, "colon"));
}

// Such a schema fits no record: it is the options that are wrong, not the data.
TEST_F(ConvertLimitsTest, ASchemaThatTheOutputCannotHoldIsToldOnce) {
  const std::string in = Write("in.jsonl", "{\"N\":1}\n{\"N\":2}\n");
  const auto expect = [&](ConvertFormat to, const std::string& schema, const std::string& name) {
    ConvertOptions options = Options(ConvertFormat::kJsonLines, {in}, to);
    options.schema = Schema(schema);
    if (!name.empty()) options.features = {{"N", name}};
    options.on_damage = ConvertDamage::kSkip;
    int num_told = 0;
    options.tell_bad = [&](const absl::Status&) { ++num_told; };
    const absl::Status error = Error(options);
    EXPECT_MESSAGE(error);
    EXPECT_FALSE(GetRecordError(error).has_value());
    EXPECT_EQ(num_told, 0);
  };
  expect(ConvertFormat::kCsv, "N:int64", "a,b");
  expect(ConvertFormat::kJsonLines, "N:int64", "a,b");
  expect(ConvertFormat::kTar, "N:int64", "");
  expect(ConvertFormat::kImages, "N:int64", "");
}

// A record may be without what the output cannot hold.
TEST_F(ConvertLimitsTest, AnOptionalFeatureIsJudgedWhereItIs) {
  const std::string in = Write("in.jsonl", "{\"a\":1,\"N\":1}\n{\"a\":2}\n");
  ConvertOptions options = Options(ConvertFormat::kJsonLines, {in}, ConvertFormat::kTar);
  options.schema = Schema("a:int64,N:int64?");
  options.on_damage = ConvertDamage::kSkip;
  const auto report = Convert(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_records, 1u);
  EXPECT_EQ(report->num_left_out, 1u);
}

// Random Examples through formats: each comes back the same, or is refused.
TEST_F(ConvertLimitsTest, RandomExamplesComeBackOrAreRefused) {
  std::mt19937_64 random(7);
  int came_back = 0;
  for (int i = 0; i < 60; ++i) {
    const oracle::Example example = RandomExample(random);
    WriteTfRecord(Path("in.tfrecord"), {example.SerializeAsString()});
    for (const ConvertFormat format : {ConvertFormat::kCsv, ConvertFormat::kJsonLines}) {
      ConvertOptions there = Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, format, "r");
      there.overwrite = true;
      const auto report = Convert(there);
      if (!report.ok()) {
        EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument) << report.status();
        continue;
      }
      const auto manifest = nlohmann::json::parse(ReadFile(Path("out/r.manifest.json")));
      ConvertOptions back = Options(format, report->files, ConvertFormat::kTfRecord, "s");
      back.overwrite = true;
      back.container.has_header = format == ConvertFormat::kCsv;
      const auto schema = ParseConvertSchema(manifest["schema"].get<std::string>());
      if (!schema.ok()) continue;  // a flag cannot say the name ""
      back.schema = *schema;
      EXPECT_EQ(ReadExamples(Run(back)), ReadExamples({Path("in.tfrecord")}));
      ++came_back;
    }
  }
  EXPECT_GT(came_back, 8);
}

}  // namespace
}  // namespace millrace::readers
