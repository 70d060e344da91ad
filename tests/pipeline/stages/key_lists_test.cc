#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/pipeline.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/temp_files.h"

// Keys with lists in braces.

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;

class KeyListsTest : public testing::Test {
 protected:
  // The first batch, of 2 rows, of a text file.
  absl::StatusOr<Batch> FirstBatch(const std::string& lines, const std::string& stage) {
    WriteFile(folder_ / "data", lines);
    const auto plan =
        Plan::FromText(absl::StrCat("stage { text { files: \"", folder_ / "data",
                                    "\" } }\nstage { ", stage, " }\nstage { batch { size: 2 } }\n"),
                       "p");
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
    return **std::move(batch);
  }

  static std::vector<int64_t> Ints(const Batch& batch, const std::string& field) {
    const auto values = batch.Find(field).as<int64_t>();
    return {values.begin(), values.end()};
  }

  const TempFolder folder_;
  std::unique_ptr<Pipeline> pipeline_;
};

// S-PARSE-7.
TEST_F(KeyListsTest, AKeyInBracesIsAFeatureForEach) {
  const auto batch = FirstBatch("1,2,3\n4,5,6\n",
                                "parse_csv { feature { key: \"I{0..1}\" dtype: INT64 }\n"
                                "            feature { key: \"label\" dtype: INT64 } }");
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(batch->names(), ElementsAre("I0", "I1", "label"));
  EXPECT_THAT(Ints(*batch, "I0"), ElementsAre(1, 4));
  EXPECT_THAT(Ints(*batch, "I1"), ElementsAre(2, 5));
  EXPECT_THAT(Ints(*batch, "label"), ElementsAre(3, 6));
}

// S-PARSE-7.
TEST_F(KeyListsTest, NamesAreListsOfTheSameLength) {
  const auto batch = FirstBatch(
      "{\"user\": {\"a\": 1, \"b\": 2}}\n{\"user\": {\"a\": 3}}\n",
      "parse_json { feature { key: \"user.{a,b}\" name: \"x{1..2}\" dtype: INT64 default_int: 9 } "
      "}");
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(batch->names(), ElementsAre("x1", "x2"));
  EXPECT_THAT(Ints(*batch, "x1"), ElementsAre(1, 3));
  EXPECT_THAT(Ints(*batch, "x2"), ElementsAre(2, 9));
}

// S-PARSE-7.
TEST(KeyListsCheck, AListIsThePlanWithAFeatureForEach) {
  const auto plan = [](const std::string& features) {
    return Make(absl::StrCat(kSource, "stage { parse_csv { ", features, " } }\n", kBatch));
  };
  const Plan list = plan("feature { key: \"I{8..10}\" dtype: INT64 default_int: 7 }");
  const Plan each = plan(
      "feature { key: \"I8\" dtype: INT64 default_int: 7 }"
      "feature { key: \"I9\" dtype: INT64 default_int: 7 }"
      "feature { key: \"I10\" dtype: INT64 default_int: 7 }");
  EXPECT_EQ(list.Fingerprint(), each.Fingerprint());
  EXPECT_EQ(Make(list.ToText()).Fingerprint(), list.Fingerprint());
  EXPECT_NE(plan("feature { key: \"I{8..9}\" dtype: INT64 default_int: 7 }").Fingerprint(),
            list.Fingerprint());
}

// S-PARSE-7.
TEST(KeyListsCheck, ErrorsNameThePlaceOfTheList) {
  EXPECT_MESSAGE(
      StageError("parse_json {\n feature { key: \"a\" dtype: INT64 }\n"
                 " feature { key: \"b{0..2}\" name: \"c\" dtype: INT64 } }"));
  EXPECT_MESSAGE(
      StageError("parse_json {\n feature { key: \"b{0..2}\" dtype: INT64 }\n"
                 " feature { key: \"b1\" dtype: INT64 } }"));
  EXPECT_MESSAGE(StageError("parse_json { feature { key: \"{a,}\" dtype: INT64 } }"));
  EXPECT_MESSAGE(StageError("parse_json { feature { key: \"{record,a}\" dtype: INT64 } }"));
  EXPECT_MESSAGE(
      StageError("parse_csv { column: [\"a0\", \"a1\"] feature { key: \"a{0..2}\" "
                 "dtype: INT64 } }"));
  EXPECT_MESSAGE(StageError("parse_json { feature { key: \"a{1..1000000}\" dtype: INT64 } }"));
}

}  // namespace
}  // namespace millrace::pipeline
