#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/run.h"
#include "pipeline/optimizer_internal.h"
#include "tests/pipeline/hashing_ops.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kParse[] =
    "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } feature { key: "
    "\"image/class/label\" name: \"label\" dtype: INT64 } } }\n";
constexpr char kCrop[] = "stage { random_resized_crop { height: 4 width: 5 } }\n";

// `stages` between a source and a batch of 8.
Plan MakePlan(const std::string& stages) {
  auto plan = Plan::FromText(
      "seed: 5 stage { tfrecord { files: \"a\" } }\n" + stages + "stage { batch { size: 8 } }",
      "p");
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

PhysicalPlan Lower(const std::string& stages, const OptimizerOptions& options = {}) {
  auto physical = MakePhysicalPlan(MakePlan(stages), options, MakeHashingOp);
  EXPECT_TRUE(physical.ok()) << physical.status();
  return *std::move(physical);
}

std::string ErrorOf(const std::string& stages) {
  const auto physical = MakePhysicalPlan(MakePlan(stages), {}, MakeHashingOp);
  EXPECT_EQ(physical.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(physical.status().message());
}

std::vector<std::string> OpStages(const PhysicalPlan& plan) {
  std::vector<std::string> names;
  for (const PhysicalOp& op : plan.ops) names.push_back(op.stage);
  return names;
}

// The bytes of every field of the batch after the ops, stored as an executor would: bound fields in
// a slab of rows, others copied from where they lie.
std::map<std::string, std::string> Execute(const PhysicalPlan& plan, int64_t num_rows) {
  RunArena arena;
  Run run(arena, plan.seed, 0, std::vector<SampleId>(static_cast<size_t>(num_rows)));
  std::vector<std::string> records;
  for (int64_t row = 0; row < num_rows; ++row) records.push_back("record " + std::to_string(row));
  Column& record = run.Add("record", DType::kBytes);
  for (int64_t row = 0; row < num_rows; ++row) {
    const std::string& bytes = records[static_cast<size_t>(row)];
    record.Set(row, bytes.data(), {static_cast<int64_t>(bytes.size())});
  }
  std::map<std::string, std::string> slab;
  for (const Field& field : plan.batch_schema.fields()) {
    slab[field.name].resize(SizeOf(field.dtype) * static_cast<size_t>(field.shape.num_elements()) *
                            static_cast<size_t>(num_rows));
  }
  for (const PhysicalOp& op : plan.ops) {
    std::vector<FieldSlots> slots;
    for (const std::string& name : op.binds) {
      const Field& field = *plan.batch_schema.Find(name);
      slots.push_back(
          {name, field.dtype, field.shape, reinterpret_cast<std::byte*>(slab[name].data())});
    }
    run.Bind(slots);
    op.op->Apply(run);
    run.Bind({});
  }
  for (auto& [name, bytes] : slab) {
    const size_t row_bytes = bytes.size() / static_cast<size_t>(num_rows);
    for (int64_t row = 0; row < num_rows; ++row) {
      char* to = bytes.data() + static_cast<size_t>(row) * row_bytes;
      const void* from = run.Get(name).at(row).data;
      if (from != to) std::memcpy(to, from, row_bytes);
    }
  }
  return slab;
}

TEST(OptimizerTest, PlanBecomesSourceOrderOpsAndBatch) {
  const PhysicalPlan physical = Lower(
      "stage { skip { count: 2 } } stage { name: \"mix\" global_shuffle {} }" +
      std::string(kParse) + "stage { decode_image {} }" + kCrop + "stage { repeat { epochs: 3 } }");
  EXPECT_THAT(physical.sources[0].file_patterns, ElementsAre("a"));
  EXPECT_EQ(physical.sources[0].compression, "auto");
  EXPECT_TRUE(physical.sources[0].verify_crc);
  EXPECT_EQ(physical.seed, 5u);
  EXPECT_EQ(physical.batch.size, 8u);
  EXPECT_EQ(physical.prefetch_batches, 2);
  ASSERT_EQ(physical.order.steps.size(), 3u);
  EXPECT_EQ(physical.order.steps[0].kind, OrderStep::Kind::kSkip);
  EXPECT_EQ(physical.order.steps[0].count, 2u);
  EXPECT_EQ(physical.order.steps[1].kind, OrderStep::Kind::kGlobalShuffle);
  EXPECT_EQ(physical.order.steps[1].key, HashName("mix"));
  EXPECT_EQ(physical.order.steps[2].kind, OrderStep::Kind::kRepeat);
  EXPECT_EQ(physical.order.steps[2].count, 3u);
  EXPECT_THAT(physical.batch_order, IsEmpty());
  EXPECT_EQ(physical.batch_schema.ToString(), "label: int64[], image: uint8[4, 5, 3]");
}

// S-BATCH-2.
TEST(OptimizerTest, StagesBehindBatchOrderWholeBatches) {
  const auto plan = Plan::FromText(
      "stage { tfrecord { files: \"a\" } }"
      "stage { parse_example { feature { key: \"x\" dtype: FLOAT32 shape: 2 } } }"
      "stage { batch { size: 4 drop_remainder: true } } stage { repeat {} } stage { take { count: "
      "9 } } stage { prefetch { batches: 5 } }",
      "p");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto physical = MakePhysicalPlan(*plan, {}, MakeHashingOp);
  ASSERT_TRUE(physical.ok()) << physical.status();
  EXPECT_THAT(physical->order.steps, IsEmpty());
  ASSERT_EQ(physical->batch_order.size(), 2u);
  EXPECT_EQ(physical->batch_order[0].kind, OrderStep::Kind::kRepeat);
  EXPECT_EQ(physical->batch_order[1].count, 9u);
  EXPECT_TRUE(physical->batch.drop_remainder);
  EXPECT_EQ(physical->prefetch_batches, 5);
  EXPECT_EQ(physical->plan_fingerprint, plan->Fingerprint());
}

// S-PLAN-4.
TEST(OptimizerTest, SchemaErrorsNameStageAndPlace) {
  EXPECT_EQ(
      ErrorOf("stage { decode_image {} }\n"),
      "p:2:1: stage \"decode_image\": no field \"image/encoded\"; there is: record: bytes[?]");
  EXPECT_THAT(ErrorOf(kParse + std::string("stage {\n name: \"mine\" flip {} }\n")),
              HasSubstr("p:3:1: stage \"mine\": no field \"image\"; there is: image/encoded"));
}

TEST(OptimizerTest, FactoryErrorsNameStageAndPlaceAndKeepTheirCode) {
  const auto fails = [](const OpSpec&) -> absl::StatusOr<std::unique_ptr<Op>> {
    return absl::UnimplementedError("not today");
  };
  const auto physical = MakePhysicalPlan(MakePlan(kParse), {}, fails);
  EXPECT_EQ(physical.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(physical.status().message(), "p:2:1: stage \"parse_example\": not today");
}

// S-PLAN-4.
TEST(OptimizerTest, FieldsThatCannotBeBatchedAreErrorsWithAdvice) {
  EXPECT_EQ(ErrorOf(""),
            "p:2:1: stage \"batch\": samples are still whole records; add a parse_example stage "
            "before batch");
  EXPECT_EQ(ErrorOf(kParse),
            "p:3:1: stage \"batch\": field \"image/encoded\" is bytes, which a batch cannot hold; "
            "decode it (decode_image) or leave the feature out of parse_example");
  EXPECT_EQ(
      ErrorOf(kParse + std::string("stage { decode_image {} }\n")),
      "p:4:1: stage \"batch\": field \"image\" differs in shape from sample to sample (image: "
      "uint8[?, ?, 3]); add resize or random_resized_crop before batch");
  EXPECT_THAT(
      ErrorOf("stage { parse_example { feature { key: \"x\" dtype: INT64 shape: 1 } feature "
              "{ key: \"y\" dtype: INT64 shape: 2147483648 } } }\n"
              "stage { parse_example { feature { key: \"z\" dtype: INT64 } } }\n"),
      HasSubstr("p:3:1: stage \"parse_example_2\": no field \"record\""));
  EXPECT_THAT(
      ErrorOf("stage { parse_example { feature { key: \"z\" dtype: INT64 shape: [1, 1, 999] } } }\n"
              "stage { resize { field: \"z\" height: 65536 width: 65536 } }\n"),
      HasSubstr("p:4:1: stage \"batch\": a batch of 8 rows would take over 1 TiB"));
}

// S-PLAN-5.
TEST(ProjectRuleTest, FeatureThatIsOverwrittenUnreadIsNotParsed) {
  const PhysicalPlan plan = Lower(
      "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } feature { key: "
      "\"thumb\" name: \"image\" dtype: BYTES } } } stage { decode_image {} }" +
      std::string(kCrop));
  EXPECT_THAT(plan.rules, ::testing::Contains("project: thumb is not parsed, since image is "
                                              "overwritten unread"));
  EXPECT_THAT(plan.ops[0].summary, "parse_example: record -> image/encoded: bytes[?]");
}

// S-PLAN-5.
TEST(ProjectRuleTest, FeaturesThatAreReadOrReachTheBatchStay) {
  std::vector<OpSpec> specs =
      OpsFromPlan(MakePlan(kParse + std::string("stage { decode_image {} }") + kCrop).message());
  std::vector<std::string> fired;
  ProjectRule(&specs, &fired);
  EXPECT_THAT(fired, IsEmpty());
  EXPECT_EQ(std::get<readers::ParseExampleOptions>(specs[0].options).features.size(), 2u);
}

// S-ROUND-2.
TEST(DecodeRegionRuleTest, CropBehindItsDecodeBecomesOneOpUnderTheCropsName) {
  const PhysicalPlan plan = Lower(
      kParse + std::string("stage { decode_image {} } stage { global_shuffle {} } stage { name: "
                           "\"rrc\" random_resized_crop { height: 4 width: 5 } }"));
  EXPECT_THAT(OpStages(plan), ElementsAre("parse_example", "rrc"));
  EXPECT_THAT(plan.rules,
              ::testing::Contains("decode_region: decode_image decodes only what rrc keeps"));
  EXPECT_EQ(plan.ops[1].summary,
            "decode_image+random_resized_crop: image/encoded -> image: uint8[4, 5, 3]");
}

TEST(DecodeRegionRuleTest, AnotherFieldOrAnOpBetweenKeepsThemApart) {
  const std::string decode = "stage { decode_image { output: \"a\" } }";
  for (const std::string& stages :
       {decode +
            "stage { flip { field: \"a\" } } stage { random_resized_crop { field: \"a\" height: "
            "4 width: 5 } }",
        decode + "stage { resize { field: \"a\" height: 4 width: 5 } }"}) {
    EXPECT_THAT(OpStages(Lower(kParse + stages)), ::testing::Contains("decode_image")) << stages;
  }
}

TEST(MapIntoBatchRuleTest, LastWriterOfEachFieldBindsIt) {
  const PhysicalPlan plan = Lower(kParse + std::string("stage { decode_image {} }") + kCrop +
                                  "stage { flip {} } stage { normalize { mean: 1 stddev: 2 } }");
  ASSERT_THAT(OpStages(plan),
              ElementsAre("parse_example", "random_resized_crop", "flip", "normalize"));
  EXPECT_THAT(plan.ops[0].binds, ElementsAre("label"));
  EXPECT_THAT(plan.ops[1].binds, IsEmpty());
  EXPECT_THAT(plan.ops[2].binds, IsEmpty());
  EXPECT_THAT(plan.ops[3].binds, ElementsAre("image"));
  EXPECT_THAT(plan.rules, ::testing::Contains("map_into_batch: image stored by normalize"));
  EXPECT_THAT(plan.rules, ::testing::Contains("map_into_batch: label stored by parse_example"));
}

TEST(OptimizerTest, RulesThatAreOffDoNotFire) {
  const std::string stages = kParse + std::string("stage { decode_image {} }") + kCrop;
  const PhysicalPlan plan = Lower(stages, {false, false, false});
  EXPECT_THAT(plan.rules, IsEmpty());
  EXPECT_THAT(OpStages(plan), ElementsAre("parse_example", "decode_image", "random_resized_crop"));
}

// S-ROUND-1.
TEST(OptimizerTest, NoRuleChangesABit) {
  const std::string stages =
      "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } feature { key: "
      "\"thumb\" name: \"image\" dtype: BYTES } feature { key: \"label\" dtype: INT64 } } }"
      "stage { decode_image {} }" +
      std::string(kCrop) +
      "stage { flip {} } stage { normalize { mean: 1 stddev: 2 } } stage { one_hot { depth: 3 } }";
  const auto expected = Execute(Lower(stages, {false, false, false}), 8);
  ASSERT_EQ(expected.size(), 2u);
  for (int bits = 1; bits < 8; ++bits) {
    const OptimizerOptions options{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    EXPECT_TRUE(Execute(Lower(stages, options), 8) == expected) << bits;
  }
}

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

std::string WholeErrorOf(const std::string& stages, const OptimizerOptions& options = {}) {
  const auto physical = LowerText("stage { tfrecord { files: \"a\" } }\n" + stages, options);
  EXPECT_EQ(physical.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(physical.status().message());
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
  EXPECT_EQ(WholeErrorOf(kFeatures + std::string("stage { custom { op: \"x\" } }\n") +
                         "stage { padded_batch { size: 8 } }"),
            "p:3:1: stage \"custom\": custom op \"x\" is not in the OpTable");
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
  EXPECT_THAT(WholeErrorOf(kFeatures +
                           std::string("stage { filter { predicate: \"label >\" } }\n") + batch),
              ::testing::StartsWith("p:3:18: stage \"filter\": column "));
  EXPECT_THAT(
      WholeErrorOf(kFeatures + std::string("stage { filter { predicate: \"lable > 1\" } }\n") +
                   batch),
      ::testing::AllOf(::testing::StartsWith("p:3:18: stage \"filter\": "), HasSubstr("label")));
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
  EXPECT_THAT(padding("field: \"z\""),
              HasSubstr("p:3:32: stage \"padded_batch\": no field \"z\"; there is: x"));
  EXPECT_THAT(padding("field: \"x\" float_value: 1"), HasSubstr("whole numbers; give int_value"));
  EXPECT_THAT(WholeErrorOf("stage { padded_batch { size: 8 padding { field: \"record\" int_value: "
                           "256 } } }"),
              HasSubstr("padding 256 does not fit field \"record\" (record: bytes[?])"));
  EXPECT_THAT(WholeErrorOf(kFeatures + std::string("stage { decode_image {} }\n") +
                           "stage { ragged_batch { size: 8 } }"),
              HasSubstr("p:4:1: stage \"ragged_batch\": field \"image\" differs in more than its "
                        "first extent (image: uint8[?, ?, 3]); padded_batch takes it"));
  EXPECT_THAT(WholeErrorOf("stage { parse_example { feature { key: \"x\" dtype: INT64 shape: -1 } "
                           "feature { key: \"x/row_splits\" dtype: INT64 } } }\n stage { "
                           "ragged_batch { size: 8 } }"),
              HasSubstr("which is where the row splits of \"x\" go"));
  const auto bucket = [&](const std::string& field) {
    return WholeErrorOf(x + "stage { bucket_by_length { field: \"" + field +
                        "\" boundary: 3 batch_size: [8, 4] } }");
  };
  EXPECT_THAT(bucket("z"), HasSubstr("p:3:1: stage \"bucket_by_length\": no field \"z\""));
  EXPECT_THAT(bucket("y"), HasSubstr("field \"y\" is one number (y: float32[])"));
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

TEST(DecodeRegionRuleTest, FilterBetweenKeepsThemApart) {
  const PhysicalPlan plan = LowerWhole(
      kParse +
      std::string("stage { decode_image {} } stage { filter { predicate: \"label > 1\" } }") +
      kCrop + "stage { batch { size: 8 } }");
  EXPECT_THAT(OpStages(plan), ElementsAre("parse_example", "decode_image", "random_resized_crop"));
}

}  // namespace
}  // namespace millrace::pipeline
