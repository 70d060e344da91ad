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
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"

// The front-end of zip: its place, its fields, what explain says.

namespace millrace::pipeline {
namespace {

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
absl::Status PhysicalErrorOf(const std::string& text) {
  const auto physical = Physical(text);
  EXPECT_EQ(physical.status().code(), absl::StatusCode::kInvalidArgument);
  return physical.status();
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
  EXPECT_MESSAGE(error("stage { push {} }"));
  EXPECT_MESSAGE(error(AandB(kFile, kFile)));
  EXPECT_MESSAGE(ErrorOf("stage { mix {\n" + Input(AandB(kFile, kFile)) + "} }\n" + kBatch));
  EXPECT_MESSAGE(error(std::string(kFile) + " stage { flip {} }"));
  EXPECT_MESSAGE(error("seed: 3"));
  EXPECT_MESSAGE(error("stage { concatenate { " + Input(kFile) + Input(kRange) + "} }"));
  EXPECT_MESSAGE(ErrorOf(AandB(kFile, kFile) + "stage { interleave {} }\n" + kBatch));
  EXPECT_MESSAGE(ErrorOf(kSource + AandB(kFile, kFile) + kBatch));
}

// S-PLAN-16.
TEST(ZipPlanTest, EveryInputNeedsAFieldOfItsOwn) {
  const std::string inputs = Input(kFile) + Input(kRange);
  const auto error = [&](const std::string& fields) {
    return ErrorOf(ZipOf(inputs, fields) + kBatch);
  };
  EXPECT_MESSAGE(error(""));
  EXPECT_MESSAGE(error("field: \"a\""));
  EXPECT_MESSAGE(error("field: \"a\" field: \"\""));
  EXPECT_MESSAGE(error("field: \"a\" field: \"a\""));
  EXPECT_MESSAGE(ErrorOf(ZipOf("", "") + kBatch));
}

// S-PLAN-16, S-PLAN-3.
TEST(ZipPlanTest, AZipIsWithoutEndIfAllItsInputsAre) {
  const std::string endless = std::string(kFile) + " stage { repeat {} }";
  const std::string shuffled = std::string("stage { global_shuffle {} }\n") + kBatch;
  EXPECT_MESSAGE(ErrorOf(AandB(endless, endless) + shuffled));
  Make(AandB(endless, kFile) + shuffled);
  Make(AandB(kFile, endless) + shuffled);
}

// S-PLAN-16.
TEST(ZipPlanTest, NoFilterBehindAZipIsMaterialized) {
  EXPECT_MESSAGE(ErrorOf(AandB(kFile, kRange) + kParseA +
                         "stage { filter { predicate: \"x > 1\" materialize: true } }\n" + kBatch));
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
  EXPECT_MESSAGE(PhysicalErrorOf(AandB(kFile, kFile) + kParseA + kBatch));
  EXPECT_MESSAGE(PhysicalErrorOf(AandB(kRange, kFile) + kParseA + kBatch));
  EXPECT_MESSAGE(PhysicalErrorOf(AandB(kFile, kRange) +
                                 "stage { parse_example { field: \"c\" feature { key: \"x\" dtype: "
                                 "INT64 } } }\n" +
                                 kBatch));
  EXPECT_MESSAGE(PhysicalErrorOf(AandB(kFile, kRange) +
                                 "stage { parse_example { field: \"a\" feature { key: \"b\" dtype: "
                                 "INT64 } } }\n" +
                                 kBatch));
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
