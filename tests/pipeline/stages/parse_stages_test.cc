#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/pipeline.h"
#include "readers/record_writer.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/readers/example/sequence_oracle.h"
#include "tests/temp_folder.h"

// The stages parse_sequence_example, parse_csv, parse_json and parse_tar, from plans to batches.

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kCsv[] =
    "parse_csv { column: [\"id\", \"note\", \"score\"]\n"
    "  feature { key: \"score\" dtype: FLOAT32 default_float: -1 }\n"
    "  feature { key: \"id\" dtype: INT64 } }";

// The blocks of a sample of one file, "a.cls".
std::string TarOf(const std::string& text) {
  std::string blocks(4096, '\0');
  size_t used = 0;
  archive* const tar = archive_write_new();
  archive_write_set_format_ustar(tar);
  archive_write_set_bytes_per_block(tar, 0);
  archive_write_open_memory(tar, blocks.data(), blocks.size(), &used);
  archive_entry* const entry = archive_entry_new();
  archive_entry_set_pathname(entry, "a.cls");
  archive_entry_set_size(entry, static_cast<int64_t>(text.size()));
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(tar, entry);
  archive_write_data(tar, text.data(), text.size());
  archive_entry_free(entry);
  archive_write_close(tar);
  archive_write_free(tar);
  blocks.resize(used);
  return blocks;
}

class ParseStagesTest : public testing::Test {
 protected:
  // A plan over `records`, in batches of 4.
  std::string Text(const std::vector<std::string>& records, const std::string& stages,
                   const std::string& batch = "batch { size: 4 }") const {
    auto writer = readers::TfRecordWriter::Open(folder_ / "data");
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const std::string& record : records) EXPECT_TRUE((*writer)->Write(record).ok());
    EXPECT_TRUE((*writer)->Close().ok());
    return absl::StrCat("stage { tfrecord { files: \"", folder_ / "data", "\" } }\n", stages,
                        "stage { ", batch, " }\n");
  }

  absl::StatusOr<Batch> FirstBatch(const std::string& text) {
    const auto plan = Plan::FromText(text, "p");
    if (!plan.ok()) return plan.status();
    auto context = MakeContext();
    if (!context.ok()) return context.status();
    OpenOptions options;
    options.index_folder = folder_ / "index";
    auto pipeline = Pipeline::Open(*plan, *context, options);
    if (!pipeline.ok()) return pipeline.status();
    pipeline_ = *std::move(pipeline);
    auto batch = pipeline_->Next();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) return absl::NotFoundError("no batch");
    return **std::move(batch);
  }

  template <typename T>
  static std::vector<T> Values(const Batch& batch, std::string_view field) {
    const auto values = batch.Find(field).as<T>();
    return {values.begin(), values.end()};
  }

  const TempFolder folder_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(ParseStagesTest, CsvRowsBecomeBatches) {
  const auto batch = FirstBatch(
      Text({"1,a,0.5", "2,\"b\n,\",", "-3,c,1e2", "4,,4"}, absl::StrCat("stage { ", kCsv, " }\n")));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(Values<int64_t>(*batch, "id"), ElementsAre(1, 2, -3, 4));
  EXPECT_THAT(Values<float>(*batch, "score"), ElementsAre(0.5f, -1, 100, 4));
}

TEST_F(ParseStagesTest, JsonObjectsBecomeBatches) {
  const auto batch =
      FirstBatch(Text({R"({"u":{"id":1},"box":[1,2]})", R"({"box":[3,4],"u":{"id":2}})",
                       R"({"u":{"id":3},"box":[5,6]})", R"({"u":{"id":4},"box":[7,8.5]})"},
                      "stage { parse_json { feature { key: \"u.id\" name: \"id\" dtype: INT64 }\n"
                      "  feature { key: \"box\" dtype: FLOAT32 shape: 2 } } }\n"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(Values<int64_t>(*batch, "id"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Values<float>(*batch, "box"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8.5f));
}

TEST_F(ParseStagesTest, TarSamplesBecomeBatches) {
  const auto batch =
      FirstBatch(Text({TarOf("1"), TarOf("2\n"), TarOf("3"), TarOf("4")},
                      "stage { parse_tar { feature { key: \"cls;label\" name: \"label\" dtype: "
                      "INT64 } } }\n"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(Values<int64_t>(*batch, "label"), ElementsAre(1, 2, 3, 4));
}

TEST_F(ParseStagesTest, ABadRowIsAnErrorThatNamesItsRecordAndColumn) {
  const auto batch = FirstBatch(
      Text({"1,a,0.5", "x,b,2", "3,c,3", "4,d,4"}, absl::StrCat("stage { ", kCsv, " }\n")));
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string text(batch.status().message());
  EXPECT_THAT(text, HasSubstr("parse_csv"));
  EXPECT_THAT(text, HasSubstr("column 1 ('id'): \"x\" is not an int64"));
}

constexpr char kSequence[] =
    "parse_sequence_example {\n"
    "  feature { key: \"label\" dtype: INT64 }\n"
    "  feature_list { key: \"tokens\" dtype: INT64 }\n"
    "  feature_list { key: \"box\" name: \"boxes\" dtype: FLOAT32 shape: 2 allow_missing: true }\n"
    "}";

// Sample i has i tokens, and half as many boxes; every third has no list of boxes.
std::string Sequence(int i) {
  oracle::SequenceExample example;
  (*example.mutable_context()->mutable_feature())["label"].mutable_int64_list()->add_value(i);
  auto& lists = *example.mutable_feature_lists()->mutable_feature_list();
  lists["tokens"];
  for (int k = 0; k < i; ++k) {
    lists["tokens"].add_feature()->mutable_int64_list()->add_value(10 * i + k);
  }
  if (i % 3 == 0) return example.SerializeAsString();
  for (int k = 0; k < i / 2; ++k) {
    auto* box = lists["box"].add_feature()->mutable_float_list();
    box->add_value(static_cast<float>(i));
    box->add_value(static_cast<float>(k));
  }
  return example.SerializeAsString();
}

std::vector<std::string> Sequences(int count) {
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) records.push_back(Sequence(i));
  return records;
}

// S-PARSE-6.
TEST_F(ParseStagesTest, SequencesBecomePaddedBatches) {
  const auto batch = FirstBatch(
      Text(Sequences(6), absl::StrCat("stage { ", kSequence, " }\nstage { skip { count: 2 } }\n"),
           "padded_batch { size: 4 padding { field: \"tokens\" int_value: -1 } }"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(Values<int64_t>(*batch, "label"), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(batch->Find("tokens").shape, (Shape{4, 5}));
  EXPECT_THAT(
      Values<int64_t>(*batch, "tokens"),
      ElementsAre(20, 21, -1, -1, -1, 30, 31, 32, -1, -1, 40, 41, 42, 43, -1, 50, 51, 52, 53, 54));
  EXPECT_EQ(batch->Find("boxes").shape, (Shape{4, 2, 2}));
  EXPECT_THAT(Values<float>(*batch, "boxes"),
              ElementsAre(2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 4, 1, 5, 0, 5, 1));
}

TEST_F(ParseStagesTest, SequencesBecomeRaggedBatches) {
  const auto batch = FirstBatch(
      Text(Sequences(4), absl::StrCat("stage { ", kSequence, " }\n"), "ragged_batch { size: 4 }"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(Values<int64_t>(*batch, "tokens"), ElementsAre(10, 20, 21, 30, 31, 32));
  EXPECT_THAT(Values<int64_t>(*batch, "tokens/row_splits"), ElementsAre(0, 0, 1, 3, 6));
}

TEST_F(ParseStagesTest, FiltersReadFeatureListsAlsoMaterialized) {
  for (const std::string options : {"", " materialize: true"}) {
    const auto batch =
        FirstBatch(Text(Sequences(7),
                        absl::StrCat("stage { ", kSequence,
                                     " }\nstage { filter { predicate: \"len(tokens) >= 3 and "
                                     "len(boxes) > 0\"",
                                     options, " } }\n"),
                        "padded_batch { size: 2 }"));
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_THAT(Values<int64_t>(*batch, "label"), ElementsAre(4, 5)) << options;
  }
}

TEST_F(ParseStagesTest, WhatAMaterializedFilterFoundIsForListsThatMayBeMissingOnly) {
  const auto text = [&](const std::string& missing) {
    return Text(
        Sequences(6),
        absl::StrCat("stage { parse_sequence_example { feature { key: \"label\" dtype: INT64 "
                     "} feature_list { key: \"box\" dtype: FLOAT32 shape: 2 ",
                     missing,
                     " } } }\nstage { filter { predicate: \"len(box) == 0\" materialize: "
                     "true } }\n"),
        "padded_batch { size: 2 }");
  };
  const auto batch = FirstBatch(text("allow_missing: true"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(Values<int64_t>(*batch, "label"), ElementsAre(0, 1));
  EXPECT_MESSAGE(FirstBatch(text("")).status());
}

TEST_F(ParseStagesTest, ABadStepIsAnErrorThatNamesListAndStep) {
  const auto batch =
      FirstBatch(Text(Sequences(3),
                      "stage { parse_sequence_example { feature_list { key: \"tokens\" dtype: "
                      "FLOAT32 } } }\n",
                      "padded_batch { size: 2 }"));
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(batch.status());
}

// S-PLAN-5, S-CUT-6.
TEST_F(ParseStagesTest, AFilterParsesWhatItReadsAndUnreadFeaturesAreNotParsed) {
  const std::string filter =
      Text({"1,a,5", "2,b,x", "3,c,6", "4,d,7"},
           absl::StrCat("stage { ", kCsv, " }\nstage { filter { predicate: \"id != 2\" } }\n"));
  const auto batch = FirstBatch(filter);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(Values<int64_t>(*batch, "id"), ElementsAre(1, 3, 4, 0));  // the last is padding
}

TEST_F(ParseStagesTest, AMaterializedFilterMayFollow) {
  const auto text = [&](std::string_view predicate) {
    return Text(
        {"1,a,5", "2,b,4", "3,c,6", "4,d,7", "5,e,8"},
        absl::StrCat("stage { ", kCsv, " }\nstage { filter { materialize: true predicate: \"",
                     ToAbsl(predicate), "\" } }\n"));
  };
  auto batch = FirstBatch(text("id != 2"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(Values<int64_t>(*batch, "id"), ElementsAre(1, 3, 4, 5));
  batch = FirstBatch(text("id != 1"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(Values<int64_t>(*batch, "id"), ElementsAre(2, 3, 4, 5));
}

TEST(ParseStagesCheck, ErrorsNameThePlaceAndTheNearestName) {
  EXPECT_MESSAGE(StageError(
      "parse_csv { column: [\"age\", \"size\"] feature { key: \"siz\" dtype: INT64 } }"));
  EXPECT_MESSAGE(
      StageError("parse_csv { column: [\"a\", \"a\"] feature { key: \"a\" dtype: INT64 } }"));
  EXPECT_MESSAGE(StageError("parse_csv { delimiter: \"||\" feature { key: \"a\" dtype: INT64 } }"));
  EXPECT_MESSAGE(StageError("parse_csv { feature { key: \"a\" dtype: INT64 shape: 2 } }"));
  EXPECT_MESSAGE(StageError("parse_tar { feature { key: \"a\" dtype: INT64 shape: 2 } }"));
  EXPECT_MESSAGE(StageError("parse_json { }"));
  EXPECT_MESSAGE(StageError("parse_json { feature { key: \"a\" dtype: UINT8 } }"));
}

TEST(ParseStagesCheck, FeatureListsThatCannotBeAreToldWithTheirPlace) {
  const auto error = [](const std::string& options) {
    return StageError("parse_sequence_example { " + options + " }");
  };
  EXPECT_MESSAGE(error(""));
  EXPECT_MESSAGE(error("feature_list { key: \"a\" dtype: BYTES }"));
  EXPECT_MESSAGE(error("feature_list { key: \"a\" dtype: INT64 shape: -1 }"));
  EXPECT_MESSAGE(error("feature_list { key: \"a\" dtype: INT64 shape: [1, 2, 3, 4, 5] }"));
  EXPECT_MESSAGE(error("feature_list { dtype: INT64 }"));
  EXPECT_MESSAGE(error("feature_list { key: \"a\" name: \"record\" dtype: INT64 }"));
  EXPECT_MESSAGE(
      error("feature_list { key: \"a\" dtype: INT64 } feature_list { key: \"a\" name: "
            "\"b\" dtype: INT64 }"));
  EXPECT_MESSAGE(
      error("feature { key: \"a\" dtype: INT64 } feature_list { key: \"a\" dtype: INT64 }"));
}

TEST(ParseStagesCheck, WhetherAListMayBeMissingIsPartOfThePlan) {
  const auto fingerprint = [](const std::string& options) {
    return Make(absl::StrCat(kSource,
                             "stage { parse_sequence_example { feature_list { key: \"a\" dtype: "
                             "INT64 ",
                             options, " } } }\nstage { padded_batch { size: 4 } }\n"))
        .Fingerprint();
  };
  EXPECT_EQ(fingerprint("name: \"a\""), fingerprint(""));
  EXPECT_NE(fingerprint("allow_missing: true"), fingerprint(""));
}

// S-PLAN-2, S-FINGERPRINT-2.
TEST(ParseStagesCheck, DefaultsWrittenOutAreTheSamePlanAndOptionsAreNot) {
  const auto fingerprint = [](const std::string& options) {
    return Make(absl::StrCat(kSource, "stage { parse_csv { feature { key: \"a\" dtype: INT64 } ",
                             options, " } }\n", kBatch))
        .Fingerprint();
  };
  const uint64_t plain = fingerprint("");
  EXPECT_EQ(fingerprint("field: \"record\" delimiter: \",\" column: \"a\""), plain);
  EXPECT_NE(fingerprint("delimiter: \";\""), plain);
  EXPECT_NE(fingerprint("column: [\"a\", \"b\"]"), plain);
}

}  // namespace
}  // namespace millrace::pipeline
