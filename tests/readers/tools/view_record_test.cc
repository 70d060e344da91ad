#include "readers/view_record.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <limits>
#include <string>
#include <vector>

#include "readers/example_builder.h"
#include "readers/inspect.h"
#include "readers/record_writer.h"
#include "tests/messages.h"
#include "tests/readers/image_fixtures.h"

// Scan, RecordViewer and Inspect on files of every kind.

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::VariantWith;

using Bytes = std::vector<std::string_view>;

class ViewRecordTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, std::string_view bytes) const {
    WriteFile(folder_ / name, bytes);
    return folder_ / name;
  }
  // The names of the values of each record, and the number of damaged places.
  std::vector<std::string> NamesIn(const std::string& path, const ScanOptions& options = {}) {
    std::vector<std::string> names;
    RecordViewer viewer(KindOf(path, options.container));
    num_damaged_ = 0;
    const ScanVisitor visitor = {.on_columns =
                                     [&](const absl::StatusOr<std::vector<std::string>>& columns) {
                                       viewer.SetColumns(columns.value());
                                       return absl::OkStatus();
                                     },
                                 .on_record =
                                     [&](const ScannedRecord& record) {
                                       std::string& line = names.emplace_back();
                                       const auto values = viewer.View(record.payload);
                                       EXPECT_TRUE(values.ok()) << values.status();
                                       for (const auto& [name, list] : *values) line += name + " ";
                                       return true;
                                     },
                                 .on_damage =
                                     [&](const absl::Status&) {
                                       ++num_damaged_;
                                       return true;
                                     }};
    const ScanFacts facts = Scan(path, options, visitor);
    EXPECT_TRUE(facts.unreadable.ok()) << facts.unreadable;
    EXPECT_TRUE(facts.whole);
    return names;
  }
  static InspectReport Look(std::vector<std::string> files, const InspectOptions& options = {}) {
    const auto report = Inspect(files, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return *report;
  }

  const TempFolder folder_;
  int num_damaged_ = 0;
};

TEST_F(ViewRecordTest, NamesTellWhatFilesHold) {
  EXPECT_THAT(NamesIn(Write("a.csv", "1,x\n2,y\n")),
              ElementsAre("column_1 column_2 ", "column_1 column_2 "));
  EXPECT_THAT(NamesIn(Write("a.tsv", "1,x\t2\n")), ElementsAre("column_1 column_2 "));
  EXPECT_THAT(NamesIn(Write("a.jsonl", "{\"a\":{\"b\":1},\"c\":[2]}\n\n{}\n")),
              ElementsAre("a.b c ", ""));
  EXPECT_THAT(NamesIn(Write("a.txt", "one\ntwo\n")), ElementsAre("", ""));
  EXPECT_THAT(NamesIn(Write("a-ubyte", IdxLabels(3))), SizeIs(3));
  WriteTar(folder_ / "a.tar", {{"k1.jpg", "x"}, {"k1.cls", "3"}, {"k2.jpg", "y"}});
  EXPECT_THAT(NamesIn(folder_ / "a.tar"), ElementsAre("jpg cls ", "jpg "));
  Write("images/cat/1.png", MakePng(2, 3));
  Write("images/cat/2.jpg", "no image");
  EXPECT_THAT(NamesIn(folder_ / "images"), ElementsAre("image "));
  EXPECT_EQ(num_damaged_, 1);
  ExampleBuilder example;
  example.AddInt("n", 1);
  const auto writer = TfRecordWriter::Open(folder_ / "a.tfrecord");
  ASSERT_TRUE((*writer)->Write(example.Serialize()).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_THAT(NamesIn(folder_ / "a.tfrecord"), ElementsAre("n "));
}

// The system has no file left to give: that is no damage of the image.
TEST_F(ViewRecordTest, AnImageThatTheSystemCannotOpenIsNotDamaged) {
  Write("images/cat/1.png", MakePng(2, 3));
  Write("images/cat/2.png", MakePng(2, 3));
  rlimit usual = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  int num_damaged = 0;
  const ScanVisitor visitor = {.on_record =
                                   [&](const ScannedRecord&) {
                                     const rlimit none = {.rlim_cur = 0,
                                                          .rlim_max = usual.rlim_max};
                                     EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
                                     return true;
                                   },
                               .on_damage =
                                   [&](const absl::Status&) {
                                     ++num_damaged;
                                     return true;
                                   }};
  const ScanFacts facts = Scan(folder_ / "images", {}, visitor);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(facts.unreadable.code(), absl::StatusCode::kResourceExhausted) << facts.unreadable;
  EXPECT_FALSE(facts.whole);
  EXPECT_EQ(num_damaged, 0);
}

TEST_F(ViewRecordTest, AHeaderNamesTheCells) {
  ScanOptions options;
  options.container = {.kind = ContainerKind::kCsv, .has_header = true, .delimiter = ';'};
  EXPECT_THAT(NamesIn(Write("rows", "id;\"the name\"\n1;a\n"), options),
              ElementsAre("id the name "));
}

TEST_F(ViewRecordTest, ValuesOfJsonAreThoseOfTheirTypes) {
  RecordViewer viewer({.container = {.kind = ContainerKind::kText, .skips_blank = true}});
  const auto values = viewer.View(
      R"({"i":-7,"f":0.5,"s":"gr\u00f6n","l":[1,2],"m":[1,2.5],"b":true,"n":null,"o":[{}]})");
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values,
              ElementsAre(Pair("i", VariantWith<std::vector<int64_t>>(ElementsAre(-7))),
                          Pair("f", VariantWith<std::vector<float>>(ElementsAre(0.5f))),
                          Pair("s", VariantWith<Bytes>(ElementsAre("grön"))),
                          Pair("l", VariantWith<std::vector<int64_t>>(ElementsAre(1, 2))),
                          Pair("m", VariantWith<std::vector<float>>(ElementsAre(1.f, 2.5f))),
                          Pair("b", VariantWith<std::vector<int64_t>>(ElementsAre(1))),
                          Pair("n", VariantWith<std::monostate>(testing::_)),
                          Pair("o", VariantWith<std::monostate>(testing::_))));
  EXPECT_MESSAGE(viewer.View("[1]"), absl::StatusCode::kDataLoss, "array");
  EXPECT_MESSAGE(viewer.View("{"), absl::StatusCode::kDataLoss, "cut");
}

// S-PARSE-4.
TEST_F(ViewRecordTest, NanOfJsonIsANumberThatIsTold) {
  const InspectReport report =
      Look({Write("a.jsonl",
                  "{\"x\":NaN,\"l\":[1,-Infinity],\"s\":\"NaN \\\" Infinity\"}\n"
                  "{\"x\":2,\"s\":\"a\"}\n{\"x\":-NaN}\n")});
  EXPECT_EQ(report.total.num_with_nan, 1u);
  EXPECT_EQ(report.total.num_not_examples, 1u);
  ASSERT_EQ(report.features.size(), 3u);  // l, s, x
  EXPECT_EQ(report.features[0].floats.min, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(report.features[0].floats.max, 1);
  EXPECT_EQ(report.features[1].byte_lengths.max, 14u);
  EXPECT_EQ(report.features[2].kind(), "float");
  EXPECT_EQ(report.features[2].num_nan, 1u);
}

TEST_F(ViewRecordTest, ColumnsHaveTheNarrowestTypeThatHoldsAllTheirCells) {
  InspectOptions options;
  options.container = {.kind = ContainerKind::kCsv, .has_header = true};
  const InspectReport report =
      Look({Write("rows", "int,float,text,code,gap\n1,2,3,007,\n-4,5.5,x,010,6\n")}, options);
  std::vector<std::pair<std::string, std::string>> kinds;
  for (const FeatureReport& feature : report.features) {
    kinds.emplace_back(feature.key, feature.kind());
  }
  EXPECT_THAT(kinds,
              ElementsAre(Pair("code", "bytes"), Pair("float", "float"), Pair("gap", "int64"),
                          Pair("int", "int64"), Pair("text", "bytes")));
  EXPECT_EQ(report.features[2].num_none, 1u);
  EXPECT_EQ(report.features[3].ints.min, -4);
  EXPECT_EQ(report.shards[0].num_records, 2u);
}

TEST_F(ViewRecordTest, InspectDescribesImagesAndGoesOnBehindDamage) {
  Write("images/cat/1.png", MakePng(2, 3));
  Write("images/cat/2.png", "no image");
  Write("images/dog/3.jpg", MakeJpeg(4, 5));
  Write("images/dog/4.webp", "RIFF");
  const InspectReport report = Look({folder_ / "images"});
  EXPECT_EQ(report.total.num_records, 2u);
  EXPECT_EQ(report.total.num_damaged, 1u);
  EXPECT_EQ(report.total.file_bytes, MakePng(2, 3).size() + 8 + MakeJpeg(4, 5).size());
  EXPECT_EQ(report.features[0].image_widths.max, 5);
  EXPECT_THAT(report.features[0].image_formats, ElementsAre(Pair("jpeg", 1), Pair("png", 1)));
  EXPECT_THAT(report.shards[0].notes, SizeIs(1));
  const InspectReport rows = Look({Write("a.csv", "1,2\n3\n4,5\n")});
  EXPECT_EQ(rows.total.num_records, 2u);
  EXPECT_EQ(rows.total.num_damaged, 1u);
  EXPECT_TRUE(rows.shards[0].all_read);
  EXPECT_EQ(rows.shards[0].holds, "rows of CSV");
}

TEST_F(ViewRecordTest, InspectGoesOnBehindLostFraming) {
  const auto writer = TfRecordWriter::Open(folder_ / "a.tfrecord");
  for (int i = 0; i < 9; ++i) ASSERT_TRUE((*writer)->Write(std::string(84, 'x')).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  std::string bytes = ReadFile(folder_ / "a.tfrecord");
  bytes[201] ^= 1;  // in the length of record 2
  const InspectReport report = Look({Write("a.tfrecord", bytes)});
  EXPECT_EQ(report.total.num_records, 8u);
  EXPECT_EQ(report.total.num_damaged, 1u);
  EXPECT_TRUE(report.shards[0].all_read);
}

TEST_F(ViewRecordTest, InspectOfTheFirstRecordsSaysThatThereAreMore) {
  InspectOptions options;
  options.max_records = 2;
  const InspectReport report =
      Look({Write("a.jsonl", "{\"a\":1}\n{\"a\":2.5}\n{\"a\":\"x\"}\n")}, options);
  EXPECT_EQ(report.total.num_records, 2u);
  EXPECT_TRUE(report.shards[0].whole);
  EXPECT_FALSE(report.shards[0].all_read);
  EXPECT_EQ(report.features[0].kind(), "float");
  options.max_records = 0;
  EXPECT_EQ(Look({folder_ / "a.jsonl"}, options).features[0].kind(), "mixed");
}

// S-SOURCE-10.
TEST_F(ViewRecordTest, InspectRefusesFilesWithoutUsableNames) {
  InspectOptions options;
  options.container = {.kind = ContainerKind::kCsv, .has_header = true};
  const std::string good = Write("a.csv", "a,b\n1,2\n");
  for (const char* bad : {"a\n1\n", "a,c\n1,2\n", "a,a,b\n1,2,3\n", ""}) {
    const InspectReport report = Look({good, Write("b.csv", bad)}, options);
    EXPECT_EQ(report.num_unreadable, 1u);
    EXPECT_EQ(report.total.num_records, 1u);
    EXPECT_MESSAGE(report.shards[1].unreadable);
  }
  EXPECT_EQ(Look({good, Write("b.csv", "b,a\n1,2\n")}, options).total.num_records, 2u);
}

}  // namespace
}  // namespace millrace::readers
