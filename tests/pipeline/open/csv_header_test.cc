#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/op_table.h"
#include "pipeline/pipeline.h"
#include "pipeline/sample_op.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/readers/http/http_server.h"
#include "tests/readers/inflate/deflated.h"
#include "tests/temp_files.h"
#include "tests/temp_folder.h"

// Plans over CSV files whose first rows name the columns. Expected values are what Python's
// csv.DictReader makes of each file, as lists of "a,b" in the order of the files.

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using Rows = std::vector<std::string>;

constexpr char kParse[] =
    "parse_csv { column: ['a', 'b'] feature { key: 'a' dtype: INT64 }"
    " feature { key: 'b' dtype: INT64 } }";
constexpr char kParseKeys[] =
    "parse_csv { feature { key: 'a' dtype: INT64 } feature { key: 'b' dtype: INT64 } }";

class CsvHeaderTest : public testing::Test {
 protected:
  // Writes the files 0.csv, 1.csv, ... anew.
  void Write(const std::vector<std::string>& files) {
    for (size_t i = 0; i < files.size(); ++i) {
      WriteFile(folder_ / absl::StrCat(i, ".csv"), files[i]);
    }
    num_files_ = files.size();
  }
  std::string Csv(const std::string& options = "") const {
    std::vector<std::string> names;
    for (size_t i = 0; i < num_files_; ++i) {
      names.push_back(absl::StrCat("'", folder_ / absl::StrCat(i, ".csv"), "'"));
    }
    return absl::StrCat("csv { files: [", absl::StrJoin(names, ", "), "] header: true ", options,
                        "}");
  }
  static std::string Text(const std::string& source, const std::string& parse) {
    return absl::StrCat("seed: 5\nstage { ", source, " }\nstage { ", parse,
                        " }\nstage { batch { size: 2 } }\n");
  }

  // "a,b" of each row.
  absl::StatusOr<Rows> Read(const std::string& text) {
    const auto plan = Plan::FromText(text, "p");
    if (!plan.ok()) return plan.status();
    options_.index_folder = folder_ / "index";
    const auto context = MakeContext();
    const auto pipeline = Pipeline::Open(*plan, *context, options_);
    if (!pipeline.ok()) return pipeline.status();
    Rows rows;
    while (true) {
      const auto batch = (*pipeline)->Next();
      if (!batch.ok()) return batch.status();
      if (!batch->has_value()) return rows;
      const auto a = (*batch)->Find("a").as<int64_t>();
      const auto b = (*batch)->Find("b").as<int64_t>();
      for (size_t row = 0; row < a.size(); ++row) {
        if ((*batch)->valid()[row] != 0) rows.push_back(absl::StrCat(a[row], ",", b[row]));
      }
    }
  }
  Rows Good(const std::string& text) {
    const auto rows = Read(text);
    EXPECT_TRUE(rows.ok()) << rows.status() << "\n" << text;
    return rows.value_or(Rows());
  }

  const TempFolder folder_;
  OpenOptions options_;
  size_t num_files_ = 0;
};

// S-SOURCE-10.
TEST_F(CsvHeaderTest, FilesWithOtherOrdersAreReadByTheNamesOfEach) {
  Write({"a,b\n1,2\n", "b,a\n30,40\n", "a,b\n5,6\n"});
  EXPECT_THAT(Good(Text(Csv(), kParse)), ElementsAre("1,2", "40,30", "5,6"));
  EXPECT_THAT(Good(Text(Csv(), kParseKeys)), ElementsAre("1,2", "40,30", "5,6"));
  // With kept indexes, in any order, and behind a filter, whose pass 1 keeps the records.
  EXPECT_THAT(Good(Text(Csv(), kParse)), ElementsAre("1,2", "40,30", "5,6"));
  EXPECT_THAT(Good(Text(Csv() + " } stage { global_shuffle {}", kParse)),
              UnorderedElementsAre("1,2", "40,30", "5,6"));
  for (const char* filter :
       {"filter { predicate: 'b > 5' }", "filter { predicate: 'b > 5' materialize: true }"}) {
    EXPECT_THAT(Good(Text(Csv(), absl::StrCat(kParse, " } stage { ", filter))),
                ElementsAre("40,30", "5,6"))
        << filter;
  }
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, EveryFileMayHaveTheSameOtherOrder) {
  Write({"b,a\n1,2\n", "b,a\n3,4\n"});
  EXPECT_THAT(Good(Text(Csv(), kParse)), ElementsAre("2,1", "4,3"));
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, WithoutColumnTheHeaderNamesThemAndMayNameMore) {
  Write({"x,a,b\n9,1,2\n", "b,y,z,a\n30,9,9,40\n"});
  EXPECT_THAT(Good(Text(Csv(), kParseKeys)), ElementsAre("1,2", "40,30"));
  EXPECT_MESSAGE(Read(Text(Csv(), kParse)), absl::StatusCode::kInvalidArgument);
  Write({"a,B\n1,2\n"});
  EXPECT_MESSAGE(Read(Text(Csv(), kParseKeys)), absl::StatusCode::kInvalidArgument);
  Write({"x,a,b\n9,1\n"});
  EXPECT_MESSAGE(Read(Text(Csv(), kParseKeys)), absl::StatusCode::kInvalidArgument);
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, AMissingDoubledOrSurplusNameIsAnErrorWithBothLists) {
  for (const char* bad : {"a,label\n1,2\n", "a,b,a\n1,2,3\n", "a,b,c\n1,2,3\n", "1,2\n3,4\n",
                          "a\n1\n", "a,\"b\n", "a,b\xe2\x80\x8b\n1,2\n"}) {
    Write({"a,b\n1,2\n", bad});
    EXPECT_MESSAGE(Read(Text(Csv(), kParse)));
  }
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, AFileWithoutTheRowIsAnError) {
  for (const char* bad : {"", "\xef\xbb\xbf", "\n", "\r\n\r"}) {
    Write({"a,b\n1,2\n", bad});
    EXPECT_MESSAGE(Read(Text(Csv(), kParse)), absl::StatusCode::kInvalidArgument, "none");
    EXPECT_MESSAGE(Read(Text(Csv("ignore_header_names: true"), kParse)),
                   absl::StatusCode::kInvalidArgument, "none");
  }
  Write({"a,b\n1,2\n", "a,b\n"});
  EXPECT_THAT(Good(Text(Csv(), kParse)), ElementsAre("1,2"));
  EXPECT_THAT(Good(Text(Csv("ignore_header_names: true"), kParse)), ElementsAre("1,2"));
}

// Rows behind the damage are not taken in the order of the plan's columns. S-SOURCE-10.
TEST_F(CsvHeaderTest, ALostRowOfNamesIsAnErrorWhereNamesTellColumns) {
  const auto gzip = [](std::string_view text) {
    return readers::Deflated(text, readers::Wrapper::kGzip);
  };
  std::string first = gzip("b,a\n1,2\n");
  first[10] = '\xff';  // the first byte of the deflated text
  Write({first + gzip("3,4\n5,6\n")});
  const std::string skip = "on_damage { policy: 'skip' max_count: 9 }\n";
  EXPECT_MESSAGE(Read(skip + Text(Csv(), kParse)), absl::StatusCode::kDataLoss);
  // The first row behind the damage may lack its begin.
  EXPECT_THAT(Good(skip + Text(Csv("ignore_header_names: true"), kParse)), ElementsAre("5,6"));
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, QuotesBlanksMarksAndBlankLinesAreNoPartOfAName) {
  Write({"\xef\xbb\xbf\"b\", a \r\n1,2\r\n", "\n\r\n\"a\",\"b\"\n3,4\n", "b\t,\" a\"\n5,6\n"});
  EXPECT_THAT(Good(Text(Csv(), kParse)), ElementsAre("2,1", "3,4", "6,5"));
  Write({"\"a\nb\",a,b\n0,1,2\n", "a,\"a\nb\",b\n1,0,2\n", "b,a,\"say \"\"a\"\"\"\n2,1,0\n"});
  EXPECT_THAT(Good(Text(Csv(), kParseKeys)), ElementsAre("1,2", "1,2", "1,2"));
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, AFileOfAHeaderAloneIsCompared) {
  Write({"b,a\n", "a,b\n1,2\n"});
  EXPECT_THAT(Good(Text(Csv(), kParse)), ElementsAre("1,2"));
  Write({"c,a\n", "a,b\n1,2\n"});
  EXPECT_MESSAGE(Read(Text(Csv(), kParse)), absl::StatusCode::kInvalidArgument);
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, NamesThatAreDecorationCanBeIgnored) {
  Write({"first,second\n1,2\n", "b,a\n3,4\n"});
  EXPECT_THAT(Good(Text(Csv("ignore_header_names: true "), kParse)), ElementsAre("1,2", "3,4"));
  EXPECT_THAT(Good(Text(Csv("ignore_header_names: true "), kParseKeys)), ElementsAre("1,2", "3,4"));
  EXPECT_MESSAGE(Read(Text("csv { files: 'a' ignore_header_names: true }", kParse)),
                 absl::StatusCode::kInvalidArgument);
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, EachSourceOfAJoinHasItsOwnNames) {
  Write({"b,a\n1,2\n"});
  WriteFile(folder_ / "plain.csv", "5,6\n");
  const std::string plain = absl::StrCat("csv { files: '", folder_ / "plain.csv", "' }");
  const std::string joined = absl::StrCat("concatenate { input { stage { ", plain,
                                          " } } input { stage { ", Csv(), " } } }");
  EXPECT_THAT(Good(Text(joined, kParse)), ElementsAre("5,6", "2,1"));
  EXPECT_THAT(Good(Text(joined, kParseKeys)), ElementsAre("5,6", "2,1"));
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, EachParseCsvOfAZipGoesByTheNamesOfItsOwnInput) {
  Write({"b,a\n1,2\n", "a,b\n3,4\n"});
  WriteFile(folder_ / "other.csv", "c,b\n7,8\n9,10\n");
  const std::string zip = absl::StrCat("zip { input { stage { ", Csv(),
                                       " } } field: 'x' input { stage { csv { files: '",
                                       folder_ / "other.csv", "' header: true } } } field: 'y' }");
  EXPECT_THAT(Good(Text(zip,
                        "parse_csv { field: 'y' column: ['b', 'c'] feature { key: 'b' dtype: INT64 "
                        "} } } stage { parse_csv { field: 'x' column: ['a', 'b'] feature { key: "
                        "'a' dtype: INT64 } }")),
              ElementsAre("2,8", "3,10"));
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, CompressedShardsAndThoseBehindUrlsAreReadByTheirNames) {
  ::setenv("no_proxy", "127.0.0.1", 1);
  const readers::ScriptServer server({readers::Good("b,a\n1,2\n")});
  WriteFile(folder_ / "z.csv.gz", readers::Deflated("b,a\n3,4\n", readers::Wrapper::kGzip));
  const std::string source = absl::StrCat("csv { files: ['", folder_ / "z.csv.gz", "', '",
                                          server.Url("u.csv"), "'] header: true }");
  EXPECT_THAT(Good(Text(source, kParse)), UnorderedElementsAre("4,3", "2,1"));
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, WhereNoParseCsvTakesTheRowsAllFilesNameTheSameColumns) {
  const std::string raw = "decode_raw { shape: 3 }";
  Write({"b,a\n1,2\n", "b,a\n3,4\n"});
  const auto open = [&](const std::string& parse) {
    const auto plan = Plan::FromText(Text(Csv(), parse), "p");
    options_.index_folder = folder_ / "index";
    return Pipeline::Open(*plan, *MakeContext(), options_).status();
  };
  EXPECT_TRUE(open(raw).ok());
  Write({"b,a\n1,2\n", "a,b\n3,4\n"});
  EXPECT_MESSAGE(open(raw), absl::StatusCode::kInvalidArgument);
}

// S-SOURCE-10.
TEST_F(CsvHeaderTest, BehindAnOpThatMayMakeOtherRowsColumnsAreNotLookedFor) {
  OpTable table;
  SampleOpSpec spec;
  spec.reads = {"record"};
  spec.writes = {{"n", DType::kI64, {}}};
  ASSERT_TRUE(table
                  .RegisterSample("same", 1, spec,
                                  [](const Sample&, SampleOutput& output) {
                                    return output.Allocate(0).status();
                                  })
                  .ok());
  options_.ops = std::make_shared<const OpTable>(std::move(table));
  const std::string parse = absl::StrCat("custom { op: 'same' } } stage { ", kParse);
  Write({"a,b\n1,2\n"});
  EXPECT_THAT(Good(Text(Csv(), parse)), ElementsAre("1,2"));
  Write({"b,a\n1,2\n"});
  EXPECT_MESSAGE(Read(Text(Csv(), parse)), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::pipeline
