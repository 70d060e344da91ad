#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/specs.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/pipeline/stages/stage_specs.h"
#include "tests/temp_folder.h"

// Stages that work on strings, tokens and numbers: their options, their errors, and what a
// vocabulary's file has to do with the plan.

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;

// The op of a stage that draws no random numbers.
OpSpec FieldSpecOf(const std::string& stage) {
  const OpSpec spec = SpecOf(stage);
  EXPECT_FALSE(DrawsAtRandom(spec.options));
  EXPECT_TRUE(MakeBuiltinOp(spec).ok()) << stage;
  return spec;
}

template <typename Options>
Options OptionsOf(const std::string& stage) {
  return OptionsIn<Options>(FieldSpecOf(stage));
}

TEST(FieldStagesTest, ScaleTakesFactorsOrAnExtent) {
  const auto plain = OptionsOf<augment::ScaleOptions>("scale { field: [\"a\", \"b\"] }");
  EXPECT_THAT(plain.fields, ElementsAre("a", "b"));
  EXPECT_THAT(plain.factor, ElementsAre(1));
  EXPECT_THAT(plain.offset, ElementsAre(0));
  const auto each = OptionsOf<augment::ScaleOptions>(
      "scale { field: [\"a\", \"b\"] factor: [2, 3] offset: [4, 5] }");
  EXPECT_THAT(each.factor, ElementsAre(2, 3));
  EXPECT_THAT(each.offset, ElementsAre(4, 5));
  const auto range =
      OptionsOf<augment::ScaleOptions>("scale { field: [\"a\", \"b\"] min: 1 max: [2, 3] }");
  EXPECT_THAT(range.min, ElementsAre(1));
  EXPECT_THAT(range.max, ElementsAre(2, 3));
}

TEST(FieldStagesTest, NumbersTakeTheirOptions) {
  const auto log = OptionsOf<augment::LogOptions>("log { field: \"a\" }");
  EXPECT_EQ(log.min, 0);
  EXPECT_EQ(log.offset, 1);
  const auto other = OptionsOf<augment::LogOptions>("log { field: \"a\" min: -1 offset: 3 }");
  EXPECT_EQ(other.min, -1);
  EXPECT_EQ(other.offset, 3);
  const auto bucketize = OptionsOf<augment::BucketizeOptions>(
      "bucketize { field: \"a\" boundary: [1, 2.5] right: true }");
  EXPECT_THAT(bucketize.boundaries, ElementsAre(1, 2.5));
  EXPECT_TRUE(bucketize.right);
  const auto hash = OptionsOf<augment::HashOptions>(
      "hash { field: [\"a\", \"b\"] num_bins: [10, 20] salt: [1, 2] }");
  EXPECT_THAT(hash.num_bins, ElementsAre(10, 20));
  EXPECT_THAT(hash.salt, ElementsAre(1, 2));
  EXPECT_THAT(OptionsOf<augment::HashOptions>("hash { field: \"a\" num_bins: 9 }").salt,
              ElementsAre(0));
  const auto clip = OptionsOf<augment::ClipOptions>("clip { field: \"a\" max: 0 }");
  EXPECT_FALSE(clip.min.has_value());
  EXPECT_EQ(clip.max, 0);
  const auto fill =
      OptionsOf<augment::FillMissingOptions>("fill_missing { field: \"a\" value: 2 missing: -1 }");
  EXPECT_EQ(fill.value, 2);
  EXPECT_EQ(fill.missing, -1);
  EXPECT_FALSE(OptionsOf<augment::FillMissingOptions>("fill_missing { field: \"a\" }").missing);
}

TEST(FieldStagesTest, PadTokensTakesSidesAndNames) {
  using Truncate = augment::PadTokensOptions::Truncate;
  const auto plain = OptionsOf<augment::PadTokensOptions>("pad_tokens { length: 8 }");
  EXPECT_EQ(plain.field, "tokens");
  EXPECT_EQ(plain.length, 8);
  EXPECT_FALSE(plain.left);
  EXPECT_EQ(plain.truncate, Truncate::kRight);
  const OpSpec spec = FieldSpecOf(
      "pad_tokens { field: \"ids\" length: 8 value: -1 side: \"left\" truncate: \"none\" "
      "mask: \"m\" lengths: \"n\" }");
  const auto& full = std::get<augment::PadTokensOptions>(spec.options);
  EXPECT_EQ(full.value, -1);
  EXPECT_TRUE(full.left);
  EXPECT_EQ(full.truncate, Truncate::kNever);
  EXPECT_THAT(FieldsOf(spec.options).reads, ElementsAre("ids"));
  EXPECT_THAT(FieldsOf(spec.options).writes, ElementsAre("ids", "m", "n"));
}

TEST(FieldStagesTest, StackTakesItsFieldsAway) {
  const OpFields fields =
      FieldsOf(FieldSpecOf("stack { field: [\"a\", \"b\"] output: \"c\" }").options);
  EXPECT_THAT(fields.reads, ElementsAre("a", "b"));
  EXPECT_THAT(fields.writes, ElementsAre("c"));
  EXPECT_THAT(fields.removes, ElementsAre("a", "b"));
  EXPECT_THAT(
      FieldsOf(FieldSpecOf("stack { field: [\"a\", \"b\"] output: \"a\" }").options).removes,
      ElementsAre("b"));
}

TEST(FieldStagesTest, ErrorsSayWhereAndWhat) {
  EXPECT_MESSAGE(StageError("log {}"));
  EXPECT_MESSAGE(StageError("log { field: [\"a\", \"a\"] }"));
  EXPECT_MESSAGE(StageError("log { field: \"\" }"));
  EXPECT_MESSAGE(StageError("log { field: \"a\" min: -1 }"));
  EXPECT_MESSAGE(StageError("scale { field: \"a\" factor: [1, 2] }"));
  EXPECT_MESSAGE(StageError("scale { field: \"a\" factor: nan }"));
  EXPECT_MESSAGE(StageError("scale { field: \"a\" min: 2 max: 1 }"));
  EXPECT_MESSAGE(StageError("scale { field: \"a\" min: 2 }"));
  EXPECT_MESSAGE(StageError("scale { field: \"a\" min: 1 max: 2 factor: 3 }"));
  EXPECT_MESSAGE(StageError("bucketize { field: \"a\" }"));
  EXPECT_MESSAGE(StageError("bucketize { field: \"a\" boundary: [1, 3, 2] }"));
  EXPECT_MESSAGE(StageError("hash { field: \"a\" }"));
  EXPECT_MESSAGE(StageError("hash { field: \"a\" num_bins: 0 }"));
  EXPECT_MESSAGE(StageError("hash { field: \"a\" num_bins: 1 salt: [1, 2] }"));
  EXPECT_MESSAGE(StageError("clip { field: \"a\" }"));
  EXPECT_MESSAGE(StageError("clip { field: \"a\" min: 2 max: 1 }"));
  EXPECT_MESSAGE(StageError("clip { field: \"a\" min: nan }"));
  EXPECT_MESSAGE(StageError("fill_missing { field: \"a\" value: inf }"));
  EXPECT_MESSAGE(StageError("stack { field: \"a\" }"));
  EXPECT_MESSAGE(StageError("pad_tokens {}"));
  EXPECT_MESSAGE(StageError("pad_tokens { length: 1 side: \"middle\" }"));
  EXPECT_MESSAGE(StageError("pad_tokens { length: 1 truncate: \"x\" }"));
  EXPECT_MESSAGE(StageError("pad_tokens { length: 1 mask: \"tokens\" }"));
  EXPECT_MESSAGE(StageError("pad_tokens { length: 1 mask: \"m\" lengths: \"m\" }"));
}

class VocabularyStageTest : public ::testing::Test {
 protected:
  void Write(const std::string& bytes) { std::ofstream(file_) << bytes; }
  std::string Stage(const std::string& more = "") const {
    return absl::StrCat("vocabulary { field: \"text\" file: \"", file_, "\" ", more, " }");
  }
  std::string Text(const std::string& more = "") const {
    return absl::StrCat(kSource, "stage { ", Stage(more), " }\n", kBatch);
  }

  TempFolder folder_;
  const std::string file_ = folder_ / "vocab.txt";
};

TEST_F(VocabularyStageTest, TakesItsOptions) {
  Write("a\nb\n");
  const auto plain = OptionsOf<augment::VocabularyOptions>(Stage());
  EXPECT_EQ(plain.file, file_);
  EXPECT_FALSE(plain.default_id.has_value() || plain.split);
  EXPECT_NE(plain.digest, 0u);
  const auto full =
      OptionsOf<augment::VocabularyOptions>(Stage("default_id: -1 split: \"whitespace\""));
  EXPECT_EQ(full.default_id, -1);
  EXPECT_TRUE(full.split);
  EXPECT_EQ(OptionsOf<augment::VocabularyOptions>(Stage("oov_buckets: 7")).oov_buckets, 7);
  const OpFields fields = FieldsOf(FieldSpecOf(Stage("output: \"ids\"")).options);
  EXPECT_THAT(fields.reads, ElementsAre("text"));
  EXPECT_THAT(fields.writes, ElementsAre("ids"));
  EXPECT_THAT(fields.removes, ElementsAre("text"));
}

// S-FIELD-5.
TEST_F(VocabularyStageTest, WhatIsInTheFileIsPartOfTheFingerprint) {
  Write("a\nb\n");
  const Plan before = Make(Text());
  EXPECT_EQ(Make(Text()).Fingerprint(), before.Fingerprint());
  Write("b\na\n");
  EXPECT_NE(Make(Text()).Fingerprint(), before.Fingerprint());
  // A plan in full names the digest, so the changed file is no longer its own.
  EXPECT_MESSAGE(ErrorOf(before.ToText()));
  Write("a\nb\n");
  EXPECT_EQ(Make(before.ToText()).Fingerprint(), before.Fingerprint());
}

TEST_F(VocabularyStageTest, WhereTheFileLiesIsNot) {
  Write("a\n");
  const uint64_t fingerprint = Make(Text()).Fingerprint();
  const std::string moved = folder_ / "moved.txt";
  std::filesystem::copy(file_, moved);
  const Plan plan = Make(absl::StrCat(kSource, "stage { vocabulary { field: \"text\" file: \"",
                                      moved, "\" } }\n", kBatch));
  EXPECT_EQ(plan.Fingerprint(), fingerprint);
}

TEST_F(VocabularyStageTest, AFileThatChangesAfterThePlanWasReadIsNotSeen) {
  Write("a\n");
  const Plan plan = Make(Text());
  Write("b\n");
  EXPECT_TRUE(MakeBuiltinOp(OpsFromPlan(plan.message())[0]).ok());
  // Told by the digest where nothing is loaded.
  auto options = std::get<augment::VocabularyOptions>(OpsFromPlan(plan.message())[0].options);
  options.loaded = nullptr;
  EXPECT_MESSAGE(augment::MakeVocabulary(options).status());
}

TEST_F(VocabularyStageTest, AFileIsReadOnceForAllStagesAndPasses) {
  Write("a\n");
  const Plan plan = Make(absl::StrCat(kSource, "stage { ", Stage(), " } stage { ",
                                      Stage("split: \"whitespace\""), " }", kBatch));
  const auto loaded = [&plan](size_t stage) {
    return std::get<augment::VocabularyOptions>(OpsFromPlan(plan.message())[stage].options).loaded;
  };
  EXPECT_NE(loaded(0), nullptr);
  EXPECT_EQ(loaded(0), loaded(1));
  EXPECT_EQ(loaded(0), loaded(0));
}

TEST_F(VocabularyStageTest, ErrorsNameThePlanAndTheFileWithTheirLines) {
  EXPECT_MESSAGE(Plan::FromText(kSource + ("stage { " + Stage() + " }\n") + kBatch, "p"),
                 absl::StatusCode::kNotFound);
  Write("a\nb\na\n");
  EXPECT_MESSAGE(StageError(Stage()));
  EXPECT_MESSAGE(StageError("vocabulary { field: \"a\" }"));
  EXPECT_MESSAGE(StageError(Stage("default_id: 1 oov_buckets: 1")));
  EXPECT_MESSAGE(StageError(Stage("field: \"b\" output: \"c\"")));
  EXPECT_MESSAGE(StageError(Stage("split: \"bpe\"")));
}

}  // namespace
}  // namespace millrace::pipeline
