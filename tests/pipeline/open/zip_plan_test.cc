#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/explain/explain.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/plan/message.h"
#include "tests/pipeline/plan/plan_texts.h"

// The front-end of zip: its place, its fields, what explain says.

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFile[] = "stage { tfrecord { files: \"a\" } }";
constexpr char kRange[] = "stage { range { count: 10 } }";
constexpr char kParseA[] =
    "stage { parse_example { field: \"a\" feature { key: \"x\" dtype: INT64 } } }\n";

std::string Input(const std::string& stages) { return "input { " + stages + " }\n"; }
std::string ZipOf(const std::string& inputs, const std::string& fields) {
  return "stage { zip {\n" + inputs + fields + "} }\n";
}
std::string AandB(const std::string& a, const std::string& b) {
  return ZipOf(Input(a) + Input(b), "field: [\"a\", \"b\"]");
}

absl::StatusOr<PhysicalPlan> Physical(const std::string& text) {
  return BuildPhysicalPlan(Make(text));
}
std::string PhysicalErrorOf(const std::string& text) {
  const auto physical = Physical(text);
  EXPECT_EQ(physical.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(physical.status().message());
}

// S-PLAN-16, S-PLAN-1, S-PLAN-2.
TEST(ZipPlanTest, RecordsAndNumbersMayStandSideBySide) {
  const Plan plan = Make(AandB(std::string(kFile) + " stage { interleave {} }", kRange) +
                         "stage { global_shuffle {} } stage { repeat {} }" + kBatch);
  const auto& zip = plan.message().pipeline.stage(0).zip();
  EXPECT_EQ(plan.message().pipeline.stage(0).name(), "zip");
  EXPECT_EQ(zip.input(0).stage(0).tfrecord().compression(), "auto");
  EXPECT_EQ(zip.input(0).stage(1).interleave().cycle_length(), 1u);
  EXPECT_EQ(zip.input(1).stage(0).name(), "range");
  EXPECT_EQ(Make(plan.ToText()).Fingerprint(), plan.Fingerprint());
  Make(AandB("stage { mix { " + Input(kFile) + Input(kFile) + "} }",
             "stage { concatenate { " + Input(kRange) + Input(kRange) + "} }") +
       kBatch);
}

// S-PLAN-16, S-PLAN-10.
TEST(ZipPlanTest, WhatCannotStandInOrAroundAZipIsRefusedAtItsPlace) {
  const auto error = [](const std::string& input) { return ErrorOf(AandB(kFile, input) + kBatch); };
  EXPECT_EQ(error("stage { push {} }"), "p:3:9: push cannot be an input: its length is unknown");
  EXPECT_EQ(
      error(AandB(kFile, kFile)),
      "p:3:9: zip cannot be an input: what it makes is no record; it can only be the source of "
      "the whole plan");
  EXPECT_THAT(ErrorOf("stage { mix {\n" + Input(AandB(kFile, kFile)) + "} }\n" + kBatch),
              HasSubstr("p:2:9: zip cannot be an input"));
  EXPECT_EQ(error(std::string(kFile) + " stage { flip {} }"),
            "p:3:43: flip cannot stand in an input, which has a source and order stages only; put "
            "it behind the join");
  EXPECT_EQ(error("seed: 3"), "p:3:9: seed belongs to the whole plan, not to an input");
  EXPECT_THAT(error("stage { concatenate { " + Input(kFile) + Input(kRange) + "} }"),
              HasSubstr("p:4:1: records and the numbers of a range cannot be joined"));
  EXPECT_EQ(ErrorOf(AandB(kFile, kFile) + "stage { interleave {} }\n" + kBatch),
            "p:5:1: interleave reads files in turns and must stand directly after a "
            "source of files (tfrecord, text, ...)");
  EXPECT_THAT(ErrorOf(kSource + AandB(kFile, kFile) + kBatch), HasSubstr("p:2:1: a second source"));
}

// S-PLAN-16.
TEST(ZipPlanTest, EveryInputNeedsAFieldOfItsOwn) {
  const std::string inputs = Input(kFile) + Input(kRange);
  const auto error = [&](const std::string& fields) {
    return ErrorOf(ZipOf(inputs, fields) + kBatch);
  };
  EXPECT_EQ(error(""), "p:1:9: field names 0 fields for 2 inputs; each input's samples need one");
  EXPECT_EQ(error("field: \"a\""),
            "p:4:1: field names 1 fields for 2 inputs; each input's samples need one");
  EXPECT_EQ(error("field: \"a\" field: \"\""), "p:4:12: field must name a field");
  EXPECT_EQ(error("field: \"a\" field: \"a\""), "p:4:12: field \"a\" is there twice");
  EXPECT_EQ(ErrorOf(ZipOf("", "") + kBatch), "p:1:9: input: none given; name at least one");
}

// S-PLAN-16, S-PLAN-3.
TEST(ZipPlanTest, AZipIsWithoutEndIfAllItsInputsAre) {
  const std::string endless = std::string(kFile) + " stage { repeat {} }";
  const std::string shuffled = std::string("stage { global_shuffle {} }\n") + kBatch;
  EXPECT_THAT(ErrorOf(AandB(endless, endless) + shuffled),
              HasSubstr("p:5:1: global_shuffle after the endless repeat at p:3:43"));
  Make(AandB(endless, kFile) + shuffled);
  Make(AandB(kFile, endless) + shuffled);
}

// S-PLAN-16.
TEST(ZipPlanTest, NoFilterBehindAZipIsMaterialized) {
  EXPECT_EQ(
      ErrorOf(AandB(kFile, kRange) + kParseA +
              "stage { filter { predicate: \"x > 1\" materialize: true } }\n" + kBatch),
      "p:6:37: materialize keeps what is found out about each record of the source, and which "
      "records the zip at p:1:1 puts side by side may differ from epoch to epoch; leave "
      "materialize out");
}

// S-PLAN-4, S-PLAN-16.
TEST(ZipPlanTest, SamplesHaveAFieldOfEachInput) {
  const auto physical = *Physical(AandB(kFile, kRange) + kParseA + kBatch);
  EXPECT_EQ(physical.batch_schema.ToString(), "b: int64[], x: int64[]");
  ASSERT_EQ(physical.sources.size(), 2u);
  ASSERT_EQ(physical.zip->inputs.size(), 2u);
  EXPECT_EQ(physical.zip->inputs[1].order.source, 1u);
  EXPECT_FALSE(physical.zip->inputs[0].numbers);
  EXPECT_TRUE(physical.zip->inputs[1].numbers);
  const auto twice = *Physical(
      AandB(kFile, kFile) + kParseA +
      "stage { parse_example { field: \"b\" feature { key: \"y\" dtype: FLOAT32 } } }\n" + kBatch);
  EXPECT_EQ(twice.batch_schema.ToString(), "x: int64[], y: float32[]");
}

// S-PLAN-4.
TEST(ZipPlanTest, FieldsThatDoNotFitAreRefusedAtTheirStage) {
  EXPECT_THAT(PhysicalErrorOf(AandB(kFile, kFile) + kParseA + kBatch),
              HasSubstr("p:6:1: stage \"batch\": field \"b\" is bytes, which a batch cannot hold"));
  EXPECT_THAT(PhysicalErrorOf(AandB(kRange, kFile) + kParseA + kBatch),
              HasSubstr("p:5:1: stage \"parse_example\": parse_example: field 'a' must be bytes"));
  EXPECT_THAT(PhysicalErrorOf(AandB(kFile, kRange) +
                              "stage { parse_example { field: \"c\" feature { key: \"x\" dtype: "
                              "INT64 } } }\n" +
                              kBatch),
              HasSubstr("p:5:1: stage \"parse_example\": parse_example: "));
  EXPECT_THAT(PhysicalErrorOf(AandB(kFile, kRange) +
                              "stage { parse_example { field: \"a\" feature { key: \"b\" dtype: "
                              "INT64 } } }\n" +
                              kBatch),
              HasSubstr("field 'b' exists already"));
}

// S-FINGERPRINT-1, S-FINGERPRINT-2.
TEST(ZipPlanTest, TheFingerprintCoversInputsAndFields) {
  std::vector<uint64_t> prints;
  const std::string shuffled = std::string(kFile) + " stage { global_shuffle {} }";
  for (const std::string& zip :
       {AandB(kFile, kRange), AandB(kRange, kFile), AandB(shuffled, kRange), AandB(kFile, kFile),
        ZipOf(Input(kFile) + Input(kRange), "field: [\"a\", \"c\"]"),
        ZipOf(Input(kFile), "field: \"a\""), std::string(kSource)}) {
    prints.push_back(Make(zip + kBatch).Fingerprint());
  }
  std::ranges::sort(prints);
  EXPECT_EQ(std::ranges::adjacent_find(prints), prints.end());
}

TEST(ZipPlanTest, ExplainShowsInputsFieldsAndTheLength) {
  const Plan plan = Make(AandB(std::string(kFile) + " stage { shard { num_shards: 2 } }",
                               "stage { name: \"n\" range { count: 40 } } stage { repeat {} }") +
                         "stage { skip { count: 3 } }" + kParseA + kBatch);
  const auto physical = *BuildPhysicalPlan(plan);
  const std::string text =
      ExplainText(plan, physical, SourceFacts{{{2, 91, 1 << 20}, {0, 40, 0}}, 0, 1});
  for (const char* part : {"   1  zip                     field: \"a\" field: \"b\"\n"
                           "      1.1.1  tfrecord                files: \"a\"",
                           "      1.2.1  n (range)               count: 40",
                           "  order   zip: 2 inputs side by side, as a, b\n"
                           "            input 1: tfrecord\n"
                           "              shard: elements 0, 0 + 2, ...\n"
                           "            input 2: n\n"
                           "              repeat: again without end\n"
                           "          skip: without the first 3\n",
                           "  records 131 (1.0 MiB)\n", "  samples 43\n  batches 11\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ZipPlanTest, ExplainTellsAnEndlessZip) {
  const std::string endless = std::string(kRange) + " stage { repeat {} }";
  const Plan plan = Make(AandB(endless, endless) + kBatch);
  const SourceFacts facts{{{0, 10, 0}, {0, 10, 0}}, 0, 1};
  EXPECT_THAT(ExplainText(plan, *BuildPhysicalPlan(plan), facts),
              HasSubstr("  samples without end\n  batches without end\n"));
}

}  // namespace
}  // namespace millrace::pipeline
