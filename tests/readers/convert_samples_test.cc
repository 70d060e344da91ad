#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/record_error.h"
#include "readers/convert.h"
#include "tests/readers/convert_fixture.h"
#include "tests/readers/deflated.h"
#include "tests/readers/image_fixtures.h"

// Samples of named features between TFRecord, CSV, JSON lines and tar: there and back gives the same
// Examples, and what a format cannot hold is an error.

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ConvertSamplesTest : public ConvertFixture {
 protected:
  // Writes `examples` and returns the file.
  std::string Examples(const std::vector<ExampleBuilder>& examples) {
    std::vector<std::string> payloads;
    for (const ExampleBuilder& example : examples) payloads.push_back(example.Serialize());
    WriteTfRecord(Path("in.tfrecord"), payloads);
    return Path("in.tfrecord");
  }

  // Converts to `to` and back to TFRecord; `schema` declares both ways. What comes back has the features
  // that the first file has.
  std::vector<std::string> ThereAndBack(const std::string& file, ConvertFormat to,
                                        const std::string& schema) {
    ConvertOptions there = Options(ConvertFormat::kTfRecord, {file}, to, "there");
    there.overwrite = true;
    there.num_shards = 2;
    if (!schema.empty() && to != ConvertFormat::kTar) there.schema = Schema(schema);
    ConvertOptions back = Options(to, Run(there), ConvertFormat::kTfRecord, "back");
    if (back.files.empty()) return {};
    back.overwrite = true;
    back.container.has_header = true;
    if (!schema.empty()) back.schema = Schema(schema);
    return Run(back);
  }

  std::string ErrorOf(const ExampleBuilder& example, ConvertFormat to,
                      const std::string& schema = "") {
    ExampleBuilder good;
    good.AddInt("a", 1);
    ConvertOptions options =
        Options(ConvertFormat::kTfRecord, {Examples({good, example})}, to, "error");
    if (!schema.empty()) options.schema = Schema(schema);
    return Error(options);
  }
};

// Numbers that lose something in less than the shortest text that is read back as they are.
std::vector<float> HardFloats() {
  std::vector<float> floats = {0.0f,    -0.0f,  1.0f / 3, 16777216.0f,    1e-45f,
                               3.4e38f, -1e20f, 0.1f,     1.17549435e-38f};
  for (uint32_t bits = 0x00800001; bits < 0x7f000000; bits += 0x01234567) {
    floats.push_back(std::bit_cast<float>(bits));
  }
  return floats;
}

std::vector<int64_t> HardInts() {
  return {0, -1, 9007199254740993, std::numeric_limits<int64_t>::min(),
          std::numeric_limits<int64_t>::max()};
}

TEST_F(ConvertSamplesTest, CsvHoldsOneValueOfEachKindExactly) {
  std::vector<ExampleBuilder> examples;
  const std::vector<std::string> cells = {"plain",
                                          "",
                                          "a,b",
                                          "\"quoted\"",
                                          "two\nlines",
                                          "cr\r",
                                          " blank ",
                                          "nul\0"
                                          "byte",
                                          "\xff\xfe"};
  const auto floats = HardFloats();
  const auto ints = HardInts();
  for (size_t i = 0; i < floats.size(); ++i) {
    ExampleBuilder example;
    example.AddBytes("bytes, or so", cells[i % cells.size()]);
    example.AddFloat("float", floats[i]);
    example.AddInt("int", ints[i % ints.size()]);
    examples.push_back(example);
  }
  ExampleBuilder special;
  special.AddBytes("bytes, or so", "x");
  special.AddFloat("float", -std::numeric_limits<float>::infinity());
  special.AddInt("int", 1);
  examples.push_back(special);
  const std::string in = Examples(examples);
  // A schema splits names at commas, so the one with a comma is declared by hand.
  ConvertOptions there = Options(ConvertFormat::kTfRecord, {in}, ConvertFormat::kCsv, "there");
  const auto csv = Run(there);
  EXPECT_TRUE(ReadFile(csv[0]).starts_with("\"bytes, or so\",float,int\nplain,0,0\n\"\",-0,-1\n"));
  ConvertOptions back = Options(ConvertFormat::kCsv, csv, ConvertFormat::kTfRecord, "back");
  back.container.has_header = true;
  back.schema = {{"bytes, or so", DType::kBytes}, {"float", DType::kF32}, {"int", DType::kI64}};
  EXPECT_EQ(ReadExamples(Run(back)), ReadExamples({in}));
}

TEST_F(ConvertSamplesTest, JsonHoldsListsOfNumbersAndTextExactly) {
  std::vector<ExampleBuilder> examples;
  for (const std::string text : {"plain", "", "\"\\/\b\f\n\r\t\x01", "größe 数据 \U0001f600"}) {
    ExampleBuilder example;
    example.AddBytes("text", text);
    example.AddFloats("floats", HardFloats());
    example.AddInts("ints", HardInts());
    example.AddInts("none", {});
    example.AddInt("one.dotted", 7);
    examples.push_back(example);
  }
  const std::string in = Examples(examples);
  const auto back = ThereAndBack(in, ConvertFormat::kJsonLines,
                                 "text:bytes,floats:float32[],ints:int64[],none:int64[],"
                                 "one.dotted:int64");
  EXPECT_EQ(ReadExamples(back), ReadExamples({in}));
  // An independent reader takes every line.
  std::istringstream lines(ReadFile(Path("out/there-00000-of-00002.jsonl")));
  std::string line;
  size_t count = 0;
  for (; std::getline(lines, line); ++count) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["ints"].get<std::vector<int64_t>>(), HardInts());
    EXPECT_EQ(json["floats"].get<std::vector<float>>(), HardFloats());
  }
  EXPECT_EQ(count, 2u);
}

TEST_F(ConvertSamplesTest, TarHoldsOneValueOfEachFeatureAsAMember) {
  std::vector<ExampleBuilder> examples;
  const std::string long_key = "folder/" + std::string(150, 'x');
  for (const std::string& key : {std::string("a/1"), std::string("a/2"), long_key}) {
    ExampleBuilder example;
    example.AddBytes("__key__", key);
    example.AddInt("cls", -5);
    example.AddBytes("jpg", std::string(1000, '\xff'));
    example.AddFloat("weight", 0.1f);
    examples.push_back(example);
  }
  const std::string in = Examples(examples);
  const auto back = ThereAndBack(in, ConvertFormat::kTar, "cls:int64,jpg:bytes,weight:float32");
  EXPECT_EQ(ReadExamples(back), ReadExamples({in}));
  // libarchive's view of it.
  archive* const tar = archive_read_new();
  archive_read_support_format_tar(tar);
  const std::string path = Path("out/there-00001-of-00002.tar");
  ASSERT_EQ(archive_read_open_filename(tar, path.c_str(), 4096), ARCHIVE_OK);
  std::vector<std::string> names;
  archive_entry* entry = nullptr;
  while (archive_read_next_header(tar, &entry) == ARCHIVE_OK) {
    names.emplace_back(archive_entry_pathname(entry));
  }
  EXPECT_EQ(archive_errno(tar), 0) << archive_error_string(tar);
  archive_read_free(tar);
  EXPECT_THAT(names, ElementsAre("a/2.cls", "a/2.jpg", "a/2.weight", long_key + ".cls",
                                 long_key + ".jpg", long_key + ".weight"));
}

TEST_F(ConvertSamplesTest, TarsOfOthersBecomeExamplesOfTheirMembers) {
  WriteTar(Path("in.tar"), {{"d/a.jpg", "JPEG"}, {"d/a.CLS", " 3\n"}, {"d/b.seg.png", "PNG"}});
  const auto examples =
      ReadExamples(Run(Options(ConvertFormat::kTar, {Path("in.tar")}, ConvertFormat::kTfRecord)));
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].size(), 3u);
  EXPECT_THAT(examples[0].at("__key__").bytes, ElementsAre("d/a"));
  EXPECT_THAT(examples[0].at("jpg").bytes, ElementsAre("JPEG"));
  EXPECT_THAT(examples[0].at("cls").ints, ElementsAre(3));
  EXPECT_THAT(examples[1].at("seg.png").bytes, ElementsAre("PNG"));
  WriteTar(Path("bad.tar"), {{"a.cls", "three"}});
  EXPECT_THAT(
      Error(Options(ConvertFormat::kTar, {Path("bad.tar")}, ConvertFormat::kTfRecord, "bad")),
      HasSubstr("bad.tar: record 0 at offset 0: member 'cls': \"three\" is not an int64"));
}

TEST_F(ConvertSamplesTest, CsvColumnsAreFoundByTheHeaderOfEachFile) {
  const std::string first =
      Write("1.csv", "\xef\xbb\xbflabel;text;other\r\n1;a;x\r\n2;\"b;c\";x\r\n");
  const std::string second = Write("2.csv", Deflated("text;label\nd;4\n", Wrapper::kGzip));
  ConvertOptions options = Options(ConvertFormat::kCsv, {first, second}, ConvertFormat::kTfRecord);
  options.container.has_header = true;
  options.container.delimiter = ';';
  options.schema = Schema("text:bytes,label:int64");
  const auto examples = ReadExamples(Run(options));
  ASSERT_EQ(examples.size(), 3u);
  EXPECT_THAT(examples[1].at("text").bytes, ElementsAre("b;c"));
  EXPECT_THAT(examples[1].at("label").ints, ElementsAre(2));
  EXPECT_THAT(examples[2].at("text").bytes, ElementsAre("d"));
  EXPECT_THAT(examples[2].at("label").ints, ElementsAre(4));
  options.schema = Schema("text:bytes,lable:int64");
  options.overwrite = true;
  const std::string error = Error(options);
  EXPECT_THAT(error, HasSubstr("1.csv: header: no column 'lable'"));
  EXPECT_THAT(error, HasSubstr("label"));
}

TEST_F(ConvertSamplesTest, CsvWithoutHeaderHasTheColumnsOfTheSchema) {
  const std::string in = Write("in.csv", "1,a\n2,\n");
  ConvertOptions options = Options(ConvertFormat::kCsv, {in}, ConvertFormat::kTfRecord);
  options.schema = Schema("label:int64,text:bytes?");
  const auto examples = ReadExamples(Run(options));
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].size(), 2u);
  EXPECT_EQ(examples[1].size(), 1u) << "an empty cell is missing";
  options.overwrite = true;
  options.schema = Schema("label:int64,text:bytes");
  EXPECT_THAT(Error(options), HasSubstr("in.csv: record 1 at offset 4: value 'text' is missing"));
  options.schema = Schema("label:int64");
  EXPECT_THAT(Error(options), HasSubstr("the row has 2 columns, wanted 1"));
  options.schema = Schema("label:bytes,text:int64?");
  EXPECT_THAT(Error(options), HasSubstr("\"a\" is not an int64"));
}

TEST_F(ConvertSamplesTest, DamagedTextIsDataLossAtTheRecord) {
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
  EXPECT_THAT(Error(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kCsv),
                    absl::StatusCode::kDataLoss),
              HasSubstr("not a tf.train.Example"));
}

TEST_F(ConvertSamplesTest, CsvBecomesJsonAndBackWithItsSchema) {
  const std::string csv = "b,a\n1,x\n,\"\"\n3,\"say \"\"hi\"\"\"\n";
  ConvertOptions options =
      Options(ConvertFormat::kCsv, {Write("in.csv", csv)}, ConvertFormat::kJsonLines);
  options.container.has_header = true;
  options.schema = Schema("b:int64?,a:bytes");
  const auto json = Run(options);
  EXPECT_EQ(ReadFile(json[0]),
            "{\"b\":1,\"a\":\"x\"}\n{\"a\":\"\"}\n{\"b\":3,\"a\":\"say \\\"hi\\\"\"}\n");
  const auto manifest = nlohmann::json::parse(ReadFile(Path("out/t.manifest.json")));
  EXPECT_EQ(manifest["format"], "jsonl");
  EXPECT_EQ(manifest["schema"], "b:int64?,a:bytes");
  ConvertOptions back = Options(ConvertFormat::kJsonLines, json, ConvertFormat::kCsv, "back");
  back.schema = options.schema;
  EXPECT_EQ(ReadFile(Run(back)[0]), csv);
}

TEST_F(ConvertSamplesTest, TextIsOneFeatureWhereItIsCalledSo) {
  const std::string in = Write("in.txt", "a line\nb\n");
  ConvertOptions options = Options(ConvertFormat::kText, {in}, ConvertFormat::kJsonLines);
  options.feature = "text";
  const auto json = Run(options);
  EXPECT_EQ(ReadFile(json[0]), "{\"text\":\"a line\"}\n{\"text\":\"b\"}\n");
  ConvertOptions back = Options(ConvertFormat::kJsonLines, json, ConvertFormat::kText, "back");
  back.schema = Schema("text:bytes");
  back.feature = "text";
  EXPECT_EQ(ReadFile(Run(back)[0]), "a line\nb\n");
  options.to = ConvertFormat::kTfRecord;
  options.overwrite = true;
  EXPECT_THAT(ReadExamples(Run(options))[1].at("text").bytes, ElementsAre("b"));
}

TEST_F(ConvertSamplesTest, FeaturesAreChosenAndCalledAnew) {
  ExampleBuilder example;
  example.AddBytes("image/encoded", "JPEG");
  example.AddInt("image/class/label", 4);
  example.AddBytes("image/filename", "x.jpg");
  const std::string in = Examples({example});
  ConvertOptions options = Options(ConvertFormat::kTfRecord, {in}, ConvertFormat::kTar);
  EXPECT_THAT(Error(options), HasSubstr("feature 'image/class/label': is no extension"));
  options.features = {{"image/encoded", "jpg"}, {"image/class/label", "cls"}};
  const auto examples =
      ReadExamples(Run(Options(ConvertFormat::kTar, Run(options), ConvertFormat::kTfRecord, "b")));
  EXPECT_EQ(examples[0].size(), 3u);
  EXPECT_THAT(examples[0].at("__key__").bytes, ElementsAre("000000000"));
  EXPECT_THAT(examples[0].at("jpg").bytes, ElementsAre("JPEG"));
  EXPECT_THAT(examples[0].at("cls").ints, ElementsAre(4));
  options.features = {{"image/encodet", "jpg"}};
  options.overwrite = true;
  EXPECT_THAT(Error(options), HasSubstr("feature 'image/encodet': there is none"));
}

TEST_F(ConvertSamplesTest, WhatAFormatCannotHoldIsAnErrorAtTheRecord) {
  using F = ConvertFormat;
  ExampleBuilder two;
  two.AddInts("a", std::vector<int64_t>{1, 2});
  for (const F format : {F::kCsv, F::kJsonLines, F::kTar}) {
    const std::string error = ErrorOf(two, format);
    EXPECT_THAT(error, HasSubstr("in.tfrecord: record 1 at offset "));
    EXPECT_THAT(error, HasSubstr("feature 'a': has 2 values"));
  }
  ExampleBuilder more;
  more.AddInt("a", 1);
  more.AddInt("b", 1);
  EXPECT_THAT(ErrorOf(more, F::kCsv), HasSubstr("feature 'b': is no column"));
  ExampleBuilder none;
  EXPECT_THAT(ErrorOf(none, F::kCsv), HasSubstr("feature 'a': is missing"));
  EXPECT_THAT(ErrorOf(none, F::kCsv, "a:int64?"), HasSubstr("a row of one missing cell"));
  EXPECT_THAT(ErrorOf(none, F::kTar), HasSubstr("a sample without features"));
  ExampleBuilder other;
  other.AddFloat("a", 1);
  EXPECT_THAT(ErrorOf(other, F::kJsonLines), HasSubstr("is float32, and its column int64"));
  ExampleBuilder nan;
  nan.AddInt("a", 1);
  nan.AddFloat("f", std::bit_cast<float>(0x7fc00123u));
  EXPECT_THAT(ErrorOf(nan, F::kJsonLines, "a:int64,f:float32?"), HasSubstr("no number for"));
  EXPECT_THAT(ErrorOf(nan, F::kCsv, "a:int64,f:float32?"), HasSubstr("NaN of other bits"));
  ExampleBuilder binary;
  binary.AddInt("a", 1);
  binary.AddBytes("b", "\xff");
  EXPECT_THAT(ErrorOf(binary, F::kJsonLines, "a:int64,b:bytes?"), HasSubstr("are not UTF-8"));
  ExampleBuilder key;
  key.AddInt("a", 1);
  for (const std::string bad : {"", "a.b", "/a", "../a", "a/", "x/.y"}) {
    key.AddBytes("__key__", bad);
    EXPECT_THAT(ErrorOf(key, F::kTar), HasSubstr("feature '__key__'")) << bad;
  }
  ExampleBuilder same;
  same.AddInt("a", 1);
  same.AddBytes("__key__", "k");
  EXPECT_THAT(Error(Options(F::kTfRecord, {Examples({same, same})}, F::kTar, "same")),
              HasSubstr("record 1 of the output: tar cannot hold two samples called 'k'"));
}

// Flipped bits, cuts and swaps of what is read: an error that leaves nothing, or samples as good as any.
TEST_F(ConvertSamplesTest, DamagedInputIsAnErrorOrGoodSamples) {
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
      options.container.has_header = true;
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

// More features than are looked through one by one.
TEST_F(ConvertSamplesTest, ManyFeaturesGoThrough) {
  ExampleBuilder example;
  for (int i = 0; i < 5000; ++i) example.AddInt("f" + std::to_string(i), i);
  const std::string in = Examples({example, example});
  for (const ConvertFormat format :
       {ConvertFormat::kCsv, ConvertFormat::kJsonLines, ConvertFormat::kTar}) {
    ConvertOptions there = Options(ConvertFormat::kTfRecord, {in}, format, "there");
    there.overwrite = true;
    const auto files = Run(there);
    ASSERT_EQ(files.size(), 1u);
    ConvertOptions back = Options(format, files, ConvertFormat::kTfRecord, "back");
    back.overwrite = true;
    back.container.has_header = true;
    if (format != ConvertFormat::kTar) {
      for (int i = 0; i < 5000; ++i) back.schema.push_back({"f" + std::to_string(i), DType::kI64});
    }
    const auto examples = ReadExamples(Run(back));
    ASSERT_EQ(examples.size(), 2u);
    EXPECT_EQ(examples[1].size(), format == ConvertFormat::kTar ? 5001u : 5000u);
  }
}

// What only Examples hold goes through from TFRecord to TFRecord as it is.
TEST_F(ConvertSamplesTest, FeaturesWithoutListsStayInTfRecord) {
  WriteTfRecord(Path("in.tfrecord"), {Wrap(Entry("empty", ""))});
  const auto copied =
      Run(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kTfRecord));
  EXPECT_EQ(ReadFile(copied[0]), ReadFile(Path("in.tfrecord")));
  EXPECT_THAT(
      Error(Options(ConvertFormat::kTfRecord, {Path("in.tfrecord")}, ConvertFormat::kTar, "x")),
      HasSubstr("feature 'empty' has no list of values"));
}

// Random Examples through formats: each comes back the same, or is refused.
TEST_F(ConvertSamplesTest, RandomExamplesComeBackOrAreRefused) {
  std::mt19937_64 random(7);
  int came_back = 0;
  for (int i = 0; i < 150; ++i) {
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
      back.container.has_header = true;
      const auto schema = ParseConvertSchema(manifest["schema"].get<std::string>());
      if (!schema.ok()) continue;  // a flag cannot say the name ""
      back.schema = *schema;
      EXPECT_EQ(ReadExamples(Run(back)), ReadExamples({Path("in.tfrecord")}));
      ++came_back;
    }
  }
  EXPECT_GT(came_back, 20);
}

}  // namespace
}  // namespace millrace::readers
