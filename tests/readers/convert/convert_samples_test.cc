#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "readers/convert.h"
#include "tests/messages.h"
#include "tests/readers/convert/convert_fixture.h"
#include "tests/readers/image_fixtures.h"
#include "tests/readers/inflate/deflated.h"

// Samples of named features between TFRecord, CSV, JSON lines and tar: there and back gives the
// same Examples, and what a format cannot hold is an error.

namespace millrace::readers {
namespace {

using testing::ElementsAre;

class ConvertSamplesTest : public ConvertFixture {
 protected:
  // Converts to `to` and back to TFRecord; `schema` declares both ways. What comes back has the
  // features that the first file has.
  std::vector<std::string> ThereAndBack(const std::string& file, ConvertFormat to,
                                        const std::string& schema) {
    ConvertOptions there = Options(ConvertFormat::kTfRecord, {file}, to, "there");
    there.overwrite = true;
    there.num_shards = 2;
    if (!schema.empty() && to != ConvertFormat::kTar) there.schema = Schema(schema);
    ConvertOptions back = Options(to, Run(there), ConvertFormat::kTfRecord, "back");
    if (back.files.empty()) return {};
    back.overwrite = true;
    back.container.has_header = to == ConvertFormat::kCsv;
    if (!schema.empty()) back.schema = Schema(schema);
    return Run(back);
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
    example.AddBytes("bytes \"or\" so", cells[i % cells.size()]);
    example.AddFloat("float", floats[i]);
    example.AddInt("int", ints[i % ints.size()]);
    examples.push_back(example);
  }
  ExampleBuilder special;
  special.AddBytes("bytes \"or\" so", "x");
  special.AddFloat("float", -std::numeric_limits<float>::infinity());
  special.AddInt("int", 1);
  examples.push_back(special);
  const std::string in = Examples(examples);
  ConvertOptions there = Options(ConvertFormat::kTfRecord, {in}, ConvertFormat::kCsv, "there");
  const auto csv = Run(there);
  EXPECT_TRUE(
      ReadFile(csv[0]).starts_with("\"bytes \"\"or\"\" so\",float,int\nplain,0,0\n\"\",-0,-1\n"));
  ConvertOptions back = Options(ConvertFormat::kCsv, csv, ConvertFormat::kTfRecord, "back");
  back.container.has_header = true;
  back.schema = {{"bytes \"or\" so", DType::kBytes}, {"float", DType::kF32}, {"int", DType::kI64}};
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
  const std::string far = std::string(70, 'f') + "/" + std::string(60, 'k');  // ustar splits it
  WriteTar(Path("in.tar"),
           {{"d/a.jpg", "JPEG"}, {"d/a.CLS", " 3\n"}, {"d/b.seg.png", "PNG"}, {far + ".x", ""}});
  const auto examples =
      ReadExamples(Run(Options(ConvertFormat::kTar, {Path("in.tar")}, ConvertFormat::kTfRecord)));
  ASSERT_EQ(examples.size(), 3u);
  EXPECT_THAT(examples[2].at("__key__").bytes, ElementsAre(far));
  EXPECT_EQ(examples[0].size(), 3u);
  EXPECT_THAT(examples[0].at("__key__").bytes, ElementsAre("d/a"));
  EXPECT_THAT(examples[0].at("jpg").bytes, ElementsAre("JPEG"));
  EXPECT_THAT(examples[0].at("cls").ints, ElementsAre(3));
  EXPECT_THAT(examples[1].at("seg.png").bytes, ElementsAre("PNG"));
  WriteTar(Path("bad.tar"), {{"a.cls", "three"}});
  EXPECT_MESSAGE(
      Error(Options(ConvertFormat::kTar, {Path("bad.tar")}, ConvertFormat::kTfRecord, "bad")));
}

// S-SOURCE-11.
TEST_F(ConvertSamplesTest, TextThatAnEditorSavedIsReadOrNamed) {
  WriteTar(Path("in.tar"), {{"a.cls", "\xef\xbb\xbf 3\r\n"}});
  const auto examples =
      ReadExamples(Run(Options(ConvertFormat::kTar, {Path("in.tar")}, ConvertFormat::kTfRecord)));
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_THAT(examples[0].at("cls").ints, ElementsAre(3));
  const std::string utf16(
      "\xff\xfe"
      "3\0\n\0",
      6);
  WriteTar(Path("bad.tar"), {{"a.cls", utf16}});
  EXPECT_MESSAGE(
      Error(Options(ConvertFormat::kTar, {Path("bad.tar")}, ConvertFormat::kTfRecord, "bad")));
  ConvertOptions csv =
      Options(ConvertFormat::kCsv, {Write("bad.csv", utf16)}, ConvertFormat::kTfRecord, "bad");
  csv.container.has_header = true;
  csv.schema = Schema("a:int64");
  EXPECT_MESSAGE(Error(csv, absl::StatusCode::kDataLoss));
}

// S-PARSE-4.
TEST_F(ConvertSamplesTest, NanOfJsonIsANumberWhereThatIsAllowed) {
  const std::string in = Write("in.jsonl", "{\"x\": NaN}\n{\"x\": -Infinity}\n");
  ConvertOptions options = Options(ConvertFormat::kJsonLines, {in}, ConvertFormat::kTfRecord);
  options.schema = Schema("x:float32");
  EXPECT_MESSAGE(Error(options));
  options.allow_nan = true;
  const auto examples = ReadExamples(Run(options));
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(examples[0].at("x").floats[0])));
  EXPECT_EQ(std::bit_cast<float>(examples[1].at("x").floats[0]),
            -std::numeric_limits<float>::infinity());
  options.from = ConvertFormat::kCsv;
  EXPECT_MESSAGE(options.Validate());
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
  EXPECT_MESSAGE(Error(options));
}

// S-SOURCE-10.
TEST_F(ConvertSamplesTest, CsvWithoutTheRowOfNamesIsAnError) {
  const std::string good = Write("1.csv", "a\n1\n");
  for (const char* bad : {"", "\xef\xbb\xbf", "\n"}) {
    ConvertOptions options =
        Options(ConvertFormat::kCsv, {good, Write("2.csv", bad)}, ConvertFormat::kTfRecord);
    options.container.has_header = true;
    options.schema = Schema("a:int64");
    EXPECT_MESSAGE(Error(options), "none");
  }
}

TEST_F(ConvertSamplesTest, AllFilesThatCannotBeOpenedAreTold) {
  ConvertOptions options = Options(ConvertFormat::kCsv,
                                   {Write("1.csv", "a,b\n1,2\n"), Write("2.csv", "a,c\n1,2\n"),
                                    Write("3.csv", ""), Path("none.csv")},
                                   ConvertFormat::kTfRecord);
  options.container.has_header = true;
  options.schema = Schema("a:int64,b:int64");
  std::vector<std::string> told;
  options.tell_bad = [&](const absl::Status& error) { told.emplace_back(error.message()); };
  for (const ConvertDamage policy : {ConvertDamage::kFail, ConvertDamage::kSkip}) {
    options.on_damage = policy;
    told.clear();
    EXPECT_MESSAGE(Error(options), "error");
    ASSERT_EQ(told.size(), 3u);
    EXPECT_THAT(told[0], testing::HasSubstr("2.csv: header: no column 'b'"));
    EXPECT_THAT(told[1], testing::HasSubstr("3.csv: header: there is no row"));
    EXPECT_THAT(told[2], testing::HasSubstr("none.csv: "));
  }
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
  EXPECT_MESSAGE(Error(options));
  options.schema = Schema("label:int64");
  EXPECT_MESSAGE(Error(options));
  options.schema = Schema("label:bytes,text:int64?");
  EXPECT_MESSAGE(Error(options));
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
  EXPECT_MESSAGE(Error(options));
  options.features = {{"image/encoded", "jpg"}, {"image/class/label", "cls"}};
  const auto examples =
      ReadExamples(Run(Options(ConvertFormat::kTar, Run(options), ConvertFormat::kTfRecord, "b")));
  EXPECT_EQ(examples[0].size(), 3u);
  EXPECT_THAT(examples[0].at("__key__").bytes, ElementsAre("000000000"));
  EXPECT_THAT(examples[0].at("jpg").bytes, ElementsAre("JPEG"));
  EXPECT_THAT(examples[0].at("cls").ints, ElementsAre(4));
  options.features = {{"image/encodet", "jpg"}};
  options.overwrite = true;
  EXPECT_MESSAGE(Error(options));
}

// A member may be called as the key of the sample is; an Example has one feature of a name.
TEST_F(ConvertSamplesTest, FeaturesOfOneNameAreNoExample) {
  WriteTar(Path("in.tar"), {{"a.cls", "1"}, {"a.__key__", "x"}});
  ConvertOptions options = Options(ConvertFormat::kTar, {Path("in.tar")}, ConvertFormat::kTfRecord);
  EXPECT_MESSAGE(Error(options));
  options.schema = Schema("__key__:bytes,cls:int64");
  EXPECT_MESSAGE(Error(options));
}

// Only what the schema lets a sample be without is passed over.
TEST_F(ConvertSamplesTest, WhatIsTakenMayBeMissingWhereTheSchemaSaysSo) {
  ConvertOptions options = Options(ConvertFormat::kJsonLines, {Write("in.jsonl", "{\"a\":1}\n")},
                                   ConvertFormat::kTfRecord);
  options.schema = Schema("a:int64,b:int64?");
  options.features = {{"b", "y"}, {"a", "x"}};
  const auto examples = ReadExamples(Run(options));
  EXPECT_EQ(examples.at(0).size(), 1u);
  EXPECT_THAT(examples[0].at("x").ints, ElementsAre(1));
  options.overwrite = true;
  options.schema = Schema("a:int64,b:int64");
  EXPECT_MESSAGE(Error(options));
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
    back.container.has_header = format == ConvertFormat::kCsv;
    if (format != ConvertFormat::kTar) {
      for (int i = 0; i < 5000; ++i) back.schema.push_back({"f" + std::to_string(i), DType::kI64});
    }
    const auto examples = ReadExamples(Run(back));
    ASSERT_EQ(examples.size(), 2u);
    EXPECT_EQ(examples[1].size(), format == ConvertFormat::kTar ? 5001u : 5000u);
  }
}

}  // namespace
}  // namespace millrace::readers
