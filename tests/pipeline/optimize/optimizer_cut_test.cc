#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/philox.h"
#include "base/run.h"
#include "pipeline/optimize/optimizer.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/hashing_ops.h"
#include "tests/pipeline/logical/plan_texts.h"

// Joins, cuts and batches of samples that differ in shape, as the executor gets them.

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFeatures[] =
    "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } feature { key: "
    "\"label\" dtype: INT64 } feature { key: \"tokens\" dtype: INT64 shape: -1 } feature { key: "
    "\"boxes\" dtype: FLOAT32 shape: [-1, 4] } } }\n";
constexpr char kImage[] =
    "stage { decode_image {} } stage { random_resized_crop { height: 4 width: 5 } }\n";

// A whole plan, batch included.
absl::StatusOr<PhysicalPlan> LowerText(const std::string& text,
                                       const OptimizerOptions& options = {}) {
  const auto plan = Plan::FromText(text, "p");
  EXPECT_TRUE(plan.ok()) << plan.status();
  return MakePhysicalPlan(*plan, options, MakeHashingOp);
}

PhysicalPlan LowerWhole(const std::string& stages, const OptimizerOptions& options = {}) {
  auto physical = LowerText("stage { tfrecord { files: \"a\" } }\n" + stages, options);
  EXPECT_TRUE(physical.ok()) << physical.status();
  return *std::move(physical);
}

absl::Status WholeErrorOf(const std::string& stages, const OptimizerOptions& options = {}) {
  const auto physical = LowerText("stage { tfrecord { files: \"a\" } }\n" + stages, options);
  EXPECT_EQ(physical.status().code(), absl::StatusCode::kInvalidArgument);
  return physical.status();
}

// "parse_example: record -> label: int64[]", "filter label > 1", "unbatch boxes"
std::vector<std::string> Examined(const PhysicalPlan& plan) {
  std::vector<std::string> lines;
  for (const ExamineStep& step : plan.cut->examine) {
    if (step.kind == ExamineStep::Kind::kOp) lines.push_back(step.op.summary);
    if (step.kind == ExamineStep::Kind::kFilter) lines.push_back("filter " + step.filter->text());
    if (step.kind != ExamineStep::Kind::kUnbatch) continue;
    std::string line = "unbatch";
    for (const std::string& field : step.split) line += " " + field;
    lines.push_back(line);
  }
  return lines;
}

TEST(OptimizerTest, OrderStagesKeepTheirNumbersAndKeys) {
  const PhysicalPlan plan = LowerWhole(
      "stage { interleave { cycle_length: 3 block_length: 2 shuffle_files: true } }"
      "stage { shuffle { buffer_size: 9 } } stage { shard { num_shards: 4 index: 2 } }" +
      std::string("stage { parse_example { feature { key: \"x\" dtype: INT64 } } } stage { batch { "
                  "size: 8 } } lanes: 2"));
  ASSERT_EQ(plan.order.steps.size(), 3u);
  const OrderStep& interleave = plan.order.steps[0];
  EXPECT_EQ(interleave.kind, OrderStep::Kind::kInterleave);
  EXPECT_EQ(interleave.count, 3u);
  EXPECT_EQ(interleave.second, 2u);
  EXPECT_TRUE(interleave.shuffle_files);
  EXPECT_EQ(interleave.key, HashName("interleave"));
  EXPECT_EQ(plan.order.steps[1].kind, OrderStep::Kind::kShuffle);
  EXPECT_EQ(plan.order.steps[1].count, 9u);
  EXPECT_EQ(plan.order.steps[1].key, HashName("shuffle"));
  EXPECT_EQ(plan.order.steps[2].kind, OrderStep::Kind::kShard);
  EXPECT_EQ(plan.order.steps[2].count, 4u);
  EXPECT_EQ(plan.order.steps[2].second, 2u);
  EXPECT_EQ(plan.lanes, 2u);
  EXPECT_FALSE(plan.cut.has_value());
}

// S-PLAN-13.
TEST(OptimizerTest, JoinsBecomeATreeOverNumberedSources) {
  const auto physical = LowerText(
      "stage { concatenate { input { stage { mix { input { stage { tfrecord { files: \"a\" } } "
      "stage { take { count: 2 } } } input { stage { tfrecord { files: \"b\" } } } weight: [2, 3] "
      "} "
      "} stage { skip { count: 1 } } } input { stage { tfrecord { files: \"c\" skip_crc: true } } "
      "} "
      "} } stage { repeat {} }"
      "stage { parse_example { feature { key: \"x\" dtype: INT64 } } } stage { batch { size: 8 } "
      "}");
  ASSERT_TRUE(physical.ok()) << physical.status();
  ASSERT_EQ(physical->sources.size(), 3u);
  EXPECT_THAT(physical->sources[1].file_patterns, ElementsAre("b"));
  EXPECT_EQ(physical->sources[1].stage, "tfrecord_2");
  EXPECT_FALSE(physical->sources[2].verify_crc);
  const OrderPlan& order = physical->order;
  EXPECT_EQ(order.root, OrderPlan::Root::kConcatenate);
  ASSERT_EQ(order.inputs.size(), 2u);
  ASSERT_EQ(order.steps.size(), 1u);
  const OrderPlan& mix = order.inputs[0];
  EXPECT_EQ(mix.root, OrderPlan::Root::kMix);
  EXPECT_EQ(mix.key, HashName("mix"));
  EXPECT_THAT(mix.weights, ElementsAre(2, 3));
  EXPECT_EQ(mix.steps[0].kind, OrderStep::Kind::kSkip);
  EXPECT_EQ(mix.inputs[0].steps[0].count, 2u);
  EXPECT_EQ(mix.inputs[1].source, 1u);
  EXPECT_EQ(order.inputs[1].source, 2u);
}

TEST(OptimizerTest, RangeHasTheFieldValue) {
  const auto physical = LowerText("stage { range { count: 9 } } stage { batch { size: 8 } }");
  ASSERT_TRUE(physical.ok()) << physical.status();
  EXPECT_EQ(physical->sources[0].kind, SourceSpec::Kind::kRange);
  EXPECT_EQ(physical->sources[0].count, 9u);
  EXPECT_EQ(physical->batch_schema.ToString(), "value: int64[]");
}

// S-PLAN-15.
TEST(ExamineTest, FilterOnTheLabelDecodesNothing) {
  const PhysicalPlan plan = LowerWhole(
      "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } feature { key: "
      "\"label\" dtype: INT64 } } }" +
      std::string(kImage) +
      "stage { name: \"keep\" filter { predicate: \"label > 1\" } } stage { batch { size: 8 } }");
  EXPECT_THAT(Examined(plan),
              ElementsAre("parse_example: record -> label: int64[]", "filter label > 1"));
  EXPECT_EQ(plan.cut->num_filters, 1);
  EXPECT_THAT(plan.cut->extents_of, IsEmpty());
  EXPECT_THAT(plan.rules,
              ::testing::Contains("examine: filter \"keep\" needs parse_example(label)"));
  // Pass 2 runs all maps and no filter.
  EXPECT_THAT(OpStages(plan), ElementsAre("parse_example", "random_resized_crop"));
  EXPECT_EQ(plan.batch_schema.ToString(), "label: int64[], image: uint8[4, 5, 3]");
  EXPECT_THAT(plan.ops[0].binds, ElementsAre("label"));
  EXPECT_THAT(plan.ops[1].binds, ElementsAre("image"));
}

// S-PLAN-15.
TEST(ExamineTest, OpsThatAPredicateReadsThroughAreTakenAlong) {
  const PhysicalPlan plan =
      LowerWhole(kFeatures +
                 std::string("stage { cast { field: \"label\" dtype: INT32 } } stage { filter { "
                             "predicate: \"label > 1\" } } stage { name: \"shorten\" filter { "
                             "predicate: \"len(tokens) < 9\" } }") +
                 kImage + "stage { ragged_batch { size: 8 } }");
  // boxes and tokens differ in their first extents, so the batch wants them.
  EXPECT_THAT(
      Examined(plan),
      ElementsAre("parse_example: record -> label: int64[], tokens: int64[?], boxes: "
                  "float32[?, 4]",
                  "cast: label -> label: int32[]", "filter label > 1", "filter len(tokens) < 9"));
  EXPECT_THAT(plan.cut->extents_of, ElementsAre("tokens", "boxes"));
  EXPECT_EQ(plan.cut->num_filters, 2);
}

// S-PLAN-15.
TEST(ExamineTest, OpsBehindTheLastWantedFieldStayOut) {
  const PhysicalPlan plan =
      LowerWhole(kFeatures +
                 std::string("stage { filter { predicate: \"label > 1\" } } stage { one_hot { "
                             "depth: 3 } }") +
                 kImage + "stage { padded_batch { size: 8 } }");
  EXPECT_THAT(Examined(plan),
              ElementsAre("parse_example: record -> label: int64[], tokens: int64[?], boxes: "
                          "float32[?, 4]",
                          "filter label > 1"));
  // Fields of unknown shape are not stored straight into the batch.
  EXPECT_THAT(plan.ops[0].binds, IsEmpty());
  EXPECT_THAT(plan.ops[1].binds, ElementsAre("label"));
}

// The bytes of `field` in every row after the ops.
std::vector<std::string> Values(const std::vector<const Op*>& ops, const std::string& field) {
  RunArena arena;
  Run run(arena, 5, 0, std::vector<SampleId>(4));
  const std::vector<std::string> records = {"a", "bb", "ccc", "dddd"};
  Column& record = run.Add("record", DType::kBytes);
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    const std::string& bytes = records[static_cast<size_t>(row)];
    record.Set(row, bytes.data(), {static_cast<int64_t>(bytes.size())});
  }
  for (const Op* op : ops) op->Apply(run);
  std::vector<std::string> values;
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    const ConstTensorView value = run.Get(field).at(row);
    values.emplace_back(static_cast<const char*>(value.data),
                        SizeOf(value.dtype) * static_cast<size_t>(value.shape.num_elements()));
  }
  return values;
}

// S-PLAN-15.
TEST(ExamineTest, PassOneComputesWhatPassTwoDoes) {
  for (const std::string& field : {std::string("image"), std::string("tokens")}) {
    const PhysicalPlan plan =
        LowerWhole(kFeatures + std::string("stage { cast { field: \"tokens\" dtype: INT32 } }") +
                   kImage + "stage { flip {} } stage { filter { predicate: \"len(" + field +
                   ") > 1\" } } stage { padded_batch { size: 8 } }");
    std::vector<const Op*> pass_1;
    std::vector<const Op*> pass_2;
    for (const ExamineStep& step : plan.cut->examine) {
      if (step.kind == ExamineStep::Kind::kOp) pass_1.push_back(step.op.op.get());
    }
    for (const PhysicalOp& op : plan.ops) pass_2.push_back(op.op.get());
    EXPECT_EQ(Values(pass_1, field), Values(pass_2, field)) << field;
  }
}

// S-PLAN-15.
TEST(ExamineTest, CustomOpIsTakenToReadAndWriteEverything) {
  OptimizerOptions options;
  std::vector<std::string> made;
  options.custom = [&](const CustomOptions& custom) {
    made.push_back(custom.stage + " " + custom.op + " " + std::to_string(custom.version) + " " +
                   custom.options);
    return MakeHashingOp({"", "", IdentityOptions{}});
  };
  const std::string custom =
      "stage { name: \"mine\" custom { op: \"grade\" version: 3 options: \"z\" } }\n";
  const std::string filter = "stage { filter { predicate: \"label > 1\" } }\n";
  const std::string batch = "stage { padded_batch { size: 8 } }";
  const PhysicalPlan before = LowerWhole(kFeatures + custom + filter + batch, options);
  EXPECT_THAT(made, ElementsAre("mine grade 3 z", "mine grade 3 z"));
  ASSERT_EQ(before.cut->examine.size(), 3u);
  EXPECT_THAT(before.cut->examine[0].op.summary, HasSubstr("image/encoded: bytes[?], label"));
  EXPECT_EQ(before.cut->examine[1].stage, "mine");
  EXPECT_THAT(before.ops[0].binds, IsEmpty());
  EXPECT_THAT(before.ops[1].binds, ElementsAre("label"));
}

TEST(OptimizerTest, CustomOpWithoutATableIsAnError) {
  EXPECT_MESSAGE(WholeErrorOf(kFeatures + std::string("stage { custom { op: \"x\" } }\n") +
                              "stage { padded_batch { size: 8 } }"));
}

TEST(OptimizerTest, CustomOpsBehindTheBatchWorkOnBatches) {
  const PhysicalPlan plan = LowerWhole(
      "stage { parse_example { feature { key: \"x\" dtype: INT64 } } } stage { batch { size: 8 } } "
      "stage { name: \"m\" custom { op: \"mixup\" version: 2 options: \"0.2\" } } stage { custom { "
      "op: \"cut\" } }");
  ASSERT_EQ(plan.batch_ops.size(), 2u);
  EXPECT_EQ(plan.batch_ops[0].stage, "m");
  EXPECT_EQ(plan.batch_ops[0].op, "mixup");
  EXPECT_EQ(plan.batch_ops[0].version, 2u);
  EXPECT_EQ(plan.batch_ops[0].options, "0.2");
  EXPECT_EQ(plan.batch_ops[1].op, "cut");
  EXPECT_EQ(plan.ops.size(), 1u);
}

// S-PLAN-11.
TEST(ExamineTest, UnbatchIsCountedInPassOneAndTakesAnElementInPassTwo) {
  const PhysicalPlan plan =
      LowerWhole(kFeatures +
                 std::string("stage { unbatch { field: \"boxes\" } } stage { filter { predicate: "
                             "\"boxes[0] > 0.5\" } } stage { take { count: 5 } }") +
                 "stage { padded_batch { size: 8 } }");
  EXPECT_THAT(Examined(plan),
              ElementsAre("parse_example: record -> image/encoded: bytes[?], tokens: int64[?], "
                          "boxes: float32[?, 4]",
                          "unbatch boxes", "filter boxes[0] > 0.5"));
  EXPECT_THAT(OpStages(plan), ElementsAre("parse_example", "unbatch"));
  EXPECT_THAT(plan.ops[1].binds, ElementsAre("boxes"));
  EXPECT_EQ(plan.batch_schema.Find("boxes")->shape, Shape({4}));
  ASSERT_EQ(plan.cut->settle.size(), 1u);
  EXPECT_EQ(plan.cut->settle[0].after_filters, 1);
}

// S-PLAN-11.
TEST(ExamineTest, UnbatchWithoutFieldsSplitsAll) {
  const PhysicalPlan plan = LowerWhole(
      "stage { parse_example { feature { key: \"a\" dtype: INT64 shape: -1 } feature { key: \"b\" "
      "dtype: INT64 shape: [-1, 2] } } } stage { unbatch {} } stage { batch { size: 8 } }");
  EXPECT_EQ(Examined(plan).back(), "unbatch a b");
  EXPECT_EQ(plan.batch_schema.ToString(), "a: int64[], b: int64[2]");
  EXPECT_EQ(plan.cut->num_filters, 0);
}

// S-PLAN-11.
TEST(ExamineTest, StepsBehindACutCountWhatEachFilterLeaves) {
  const PhysicalPlan plan = LowerWhole(
      "stage { skip { count: 9 } } stage { parse_example { feature { key: \"x\" dtype: INT64 } } }"
      "stage { filter { predicate: \"x > 1\" } } stage { skip { count: 2 } }"
      "stage { filter { predicate: \"x > 2\" } } stage { name: \"s\" shuffle { buffer_size: 7 } }"
      "stage { batch { size: 8 } } stage { take { count: 3 } }");
  EXPECT_EQ(plan.order.steps.size(), 1u);
  EXPECT_EQ(plan.batch_order.size(), 1u);
  ASSERT_EQ(plan.cut->settle.size(), 2u);
  EXPECT_EQ(plan.cut->settle[0].kind, SettleStep::Kind::kSkip);
  EXPECT_EQ(plan.cut->settle[0].count, 2u);
  EXPECT_EQ(plan.cut->settle[0].after_filters, 1);
  EXPECT_EQ(plan.cut->settle[1].kind, SettleStep::Kind::kShuffle);
  EXPECT_EQ(plan.cut->settle[1].count, 7u);
  EXPECT_EQ(plan.cut->settle[1].after_filters, 2);
  EXPECT_EQ(plan.cut->settle[1].key, HashName("s"));
}

// S-PLAN-4.
TEST(OptimizerTest, PredicatesAreCheckedAtTheirPlace) {
  const std::string batch = "stage { padded_batch { size: 8 } }";
  EXPECT_MESSAGE(WholeErrorOf(
      kFeatures + std::string("stage { filter { predicate: \"label >\" } }\n") + batch));
  EXPECT_MESSAGE(WholeErrorOf(
      kFeatures + std::string("stage { filter { predicate: \"lable > 1\" } }\n") + batch));
}

// S-PLAN-12.
TEST(BatchTest, BucketsKnowTheirLengthAndSizes) {
  const PhysicalPlan plan = LowerWhole(
      "stage { parse_example { feature { key: \"tokens\" dtype: INT64 shape: -1 } } } stage { "
      "bucket_by_length { field: \"tokens\" boundary: [3, 9] batch_size: [8, 16, 2] "
      "drop_remainder: "
      "true pad_to_bucket_boundary: true padding { field: \"tokens\" int_value: -1 } } }");
  EXPECT_EQ(plan.batch.kind, BatchSpec::Kind::kBucket);
  EXPECT_EQ(plan.batch.size, 16u);
  EXPECT_EQ(plan.batch.length_field, "tokens");
  EXPECT_THAT(plan.batch.boundaries, ElementsAre(3, 9));
  EXPECT_THAT(plan.batch.bucket_sizes, ElementsAre(8, 16, 2));
  EXPECT_TRUE(plan.batch.drop_remainder);
  EXPECT_TRUE(plan.batch.pad_to_boundary);
  ASSERT_EQ(plan.batch.padding.size(), 1u);
  EXPECT_EQ(plan.batch.padding[0].int_value, -1);
  EXPECT_EQ(plan.batch.padding[0].float_value, -1);
  EXPECT_THAT(plan.cut->extents_of, ElementsAre("tokens"));
}

// S-PLAN-12.
TEST(BatchTest, PaddedBatchOfFixedShapesIsAPlainOne) {
  for (const char* batch : {"padded_batch", "ragged_batch"}) {
    const PhysicalPlan plan = LowerWhole(
        "stage { parse_example { feature { key: \"x\" dtype: INT64 shape: 2 } } } stage { " +
        std::string(batch) + " { size: 8 } }");
    EXPECT_EQ(plan.batch.kind, BatchSpec::Kind::kFixed) << batch;
    EXPECT_FALSE(plan.cut.has_value()) << batch;
  }
}

// S-PLAN-12.
TEST(BatchTest, WholeRecordsCanBePadded) {
  const PhysicalPlan plan = LowerWhole("stage { padded_batch { size: 8 } }");
  EXPECT_THAT(plan.cut->extents_of, ElementsAre("record"));
  EXPECT_THAT(plan.cut->examine, IsEmpty());
  EXPECT_THAT(plan.rules, ElementsAre("examine: extents of record needs no op"));
}

// S-PLAN-12.
TEST(BatchTest, FieldsThatDoNotFitTheKindOfBatchAreErrors) {
  const std::string x =
      "stage { parse_example { feature { key: \"x\" dtype: INT64 shape: -1 } feature { key: \"y\" "
      "dtype: FLOAT32 } } }\n";
  const auto padding = [&](const std::string& text) {
    return WholeErrorOf(x + "stage { padded_batch { size: 8 padding { " + text + " } } }");
  };
  EXPECT_MESSAGE(padding("field: \"z\""));
  EXPECT_MESSAGE(padding("field: \"x\" float_value: 1"));
  EXPECT_MESSAGE(
      WholeErrorOf("stage { padded_batch { size: 8 padding { field: \"record\" int_value: "
                   "256 } } }"));
  EXPECT_MESSAGE(WholeErrorOf(kFeatures + std::string("stage { decode_image {} }\n") +
                              "stage { ragged_batch { size: 8 } }"));
  EXPECT_MESSAGE(
      WholeErrorOf("stage { parse_example { feature { key: \"x\" dtype: INT64 shape: -1 } "
                   "feature { key: \"x/row_splits\" dtype: INT64 } } }\n stage { "
                   "ragged_batch { size: 8 } }"));
  const auto bucket = [&](const std::string& field) {
    return WholeErrorOf(x + "stage { bucket_by_length { field: \"" + field +
                        "\" boundary: 3 batch_size: [8, 4] } }");
  };
  EXPECT_MESSAGE(bucket("z"));
  EXPECT_MESSAGE(bucket("y"));
}

// S-PLAN-5.
TEST(ProjectRuleTest, WhatAFilterACustomOpOrAnUnbatchReadsIsParsed) {
  const std::string parse =
      "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } feature { key: "
      "\"thumb\" name: \"image\" dtype: BYTES } } }";
  OptimizerOptions options;
  options.custom = [](const CustomOptions&) { return MakeHashingOp({"", "", IdentityOptions{}}); };
  for (const char* stage : {"filter { predicate: \"len(image) > 3\" }", "custom { op: \"x\" }"}) {
    const PhysicalPlan plan = LowerWhole(
        parse + "stage { " + stage + " }" + kImage + "stage { batch { size: 8 } }", options);
    EXPECT_THAT(plan.ops[0].summary, HasSubstr("image: bytes[?]")) << stage;
  }
}

}  // namespace
}  // namespace millrace::pipeline
