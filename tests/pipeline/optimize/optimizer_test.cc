#include "pipeline/optimize/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/run.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/hashing_ops.h"
#include "tests/pipeline/logical/plan_texts.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kParse[] =
    "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } feature { key: "
    "\"image/class/label\" name: \"label\" dtype: INT64 } } }\n";
constexpr char kCrop[] = "stage { random_resized_crop { height: 4 width: 5 } }\n";

constexpr char kPixels[] = "stage { flip {} } stage { normalize { mean: 1 stddev: 2 } }";
const OptimizerOptions kNoRules{
    .project = false, .decode_region = false, .map_into_batch = false, .fuse_image = false};

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

absl::Status LowerErrorOf(const std::string& stages) {
  const auto physical = MakePhysicalPlan(MakePlan(stages), {}, MakeHashingOp);
  EXPECT_EQ(physical.status().code(), absl::StatusCode::kInvalidArgument);
  return physical.status();
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
  EXPECT_EQ(physical.prefetch_batches, 0);
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
  EXPECT_MESSAGE(LowerErrorOf("stage { decode_image {} }\n"));
  EXPECT_MESSAGE(LowerErrorOf(kParse + std::string("stage {\n name: \"mine\" flip {} }\n")));
}

TEST(OptimizerTest, FactoryErrorsNameStageAndPlaceAndKeepTheirCode) {
  const auto fails = [](const OpSpec&) -> absl::StatusOr<std::unique_ptr<Op>> {
    return absl::UnimplementedError("not today");
  };
  const auto physical = MakePhysicalPlan(MakePlan(kParse), {}, fails);
  EXPECT_EQ(physical.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_MESSAGE(physical.status());
}

// S-PLAN-4.
TEST(OptimizerTest, FieldsThatCannotBeBatchedAreErrorsWithAdvice) {
  EXPECT_MESSAGE(LowerErrorOf(""));
  EXPECT_MESSAGE(LowerErrorOf(kParse));
  EXPECT_MESSAGE(LowerErrorOf(kParse + std::string("stage { decode_image {} }\n")));
  EXPECT_MESSAGE(
      LowerErrorOf("stage { parse_example { feature { key: \"x\" dtype: INT64 shape: 1 } feature "
                   "{ key: \"y\" dtype: INT64 shape: 2147483648 } } }\n"
                   "stage { parse_example { feature { key: \"z\" dtype: INT64 } } }\n"));
  EXPECT_MESSAGE(LowerErrorOf(
      "stage { parse_example { feature { key: \"z\" dtype: INT64 shape: [1, 1, 999] } } }\n"
      "stage { resize { field: \"z\" height: 65536 width: 65536 } }\n"));
}

TEST(OptimizerTest, FieldsOfSeveralLengthsGetAdviceByTheirRank) {
  EXPECT_MESSAGE(LowerErrorOf(
      "stage { parse_example { feature { key: \"tokens\" dtype: INT64 shape: -1 } } }\n"));
  EXPECT_MESSAGE(LowerErrorOf(
      "stage { parse_example { feature { key: \"boxes\" dtype: FLOAT32 shape: [-1, 4] } } }\n"));
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

// S-FIELD-7. The schema has to refuse it whether the rule is on or off.
TEST(ProjectRuleTest, FeatureThatAnOpRefusesToReplaceIsParsed) {
  for (const char* op : {"pad_tokens { field: \"a\" length: 2 mask: \"b\" }",
                         "pad_tokens { field: \"a\" length: 2 lengths: \"b\" }",
                         "stack { field: \"a\" output: \"b\" }"}) {
    std::vector<OpSpec> specs = OpsFromPlan(
        MakePlan("stage { parse_example { feature { key: \"a\" dtype: INT64 } feature { key: \"b\" "
                 "dtype: INT64 } } } stage { " +
                 std::string(op) + " }")
            .message());
    std::vector<std::string> fired;
    ProjectRule(&specs, &fired);
    EXPECT_THAT(fired, IsEmpty()) << op;
  }
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

TEST(DecodeRegionRuleTest, FilterBetweenKeepsThemApart) {
  const PhysicalPlan plan =
      Lower(kParse +
            std::string("stage { decode_image {} } stage { filter { predicate: \"label > 1\" } }") +
            kCrop);
  EXPECT_THAT(OpStages(plan), ElementsAre("parse_example", "decode_image", "random_resized_crop"));
}

TEST(MapIntoBatchRuleTest, LastWriterOfEachFieldBindsIt) {
  const PhysicalPlan plan = Lower(kParse + std::string("stage { decode_image {} }") + kCrop +
                                      "stage { flip {} } stage { normalize { mean: 1 stddev: 2 } }",
                                  {.fuse_image = false});
  ASSERT_THAT(OpStages(plan),
              ElementsAre("parse_example", "random_resized_crop", "flip", "normalize"));
  EXPECT_THAT(plan.ops[0].binds, ElementsAre("label"));
  EXPECT_THAT(plan.ops[1].binds, IsEmpty());
  EXPECT_THAT(plan.ops[2].binds, IsEmpty());
  EXPECT_THAT(plan.ops[3].binds, ElementsAre("image"));
  EXPECT_THAT(plan.rules, ::testing::Contains("map_into_batch: image stored by normalize"));
  EXPECT_THAT(plan.rules, ::testing::Contains("map_into_batch: label stored by parse_example"));
}

// S-ROUND-1.
TEST(FuseImageRuleTest, OpsOnOneImageThatFollowEachOtherBecomeOneUnderTheFirstName) {
  const PhysicalPlan plan =
      Lower(kParse + std::string("stage { decode_image {} }") + kCrop + kPixels);
  ASSERT_THAT(OpStages(plan), ElementsAre("parse_example", "random_resized_crop"));
  EXPECT_THAT(plan.rules,
              ::testing::Contains(
                  "fuse_image: random_resized_crop, flip, normalize run as one op on image"));
  EXPECT_EQ(
      plan.ops[1].summary,
      "decode_image+random_resized_crop+flip+normalize: image/encoded -> image: float32[4, 5, "
      "3]");
  EXPECT_THAT(plan.ops[1].binds, ElementsAre("image"));
}

TEST(FuseImageRuleTest, WithoutACropTheStepsBecomeOne) {
  const std::string raw =
      "stage { parse_example { feature { key: \"image\" dtype: BYTES } } } stage { decode_raw { "
      "field: \"image\" output: \"image\" dtype: UINT8 shape: [6, 7, 1] } }";
  EXPECT_THAT(OpStages(Lower(raw + kPixels)), ElementsAre("parse_example", "decode_raw", "flip"));
  EXPECT_THAT(OpStages(Lower(raw + "stage { random_crop { height: 3 width: 3 } }" + kPixels)),
              ElementsAre("parse_example", "decode_raw", "random_crop"));
}

TEST(FuseImageRuleTest, WhatIsBetweenKeepsOpsApart) {
  const std::string crop = kParse + std::string("stage { decode_image {} }") + kCrop;
  for (const char* between :
       {"stage { name: \"x\" one_hot { depth: 2 } }", "stage { name: \"x\" identity {} }",
        "stage { name: \"x\" cutout { size: 2 } }",
        "stage { name: \"x\" cast { field: \"label\" dtype: FLOAT32 } }"}) {
    EXPECT_THAT(OpStages(Lower(crop + between + kPixels)),
                ElementsAre("parse_example", "random_resized_crop", "x", "flip"))
        << between;
  }
}

TEST(FuseImageRuleTest, ErrorsOfAStepNameItsOwnStage) {
  EXPECT_MESSAGE(LowerErrorOf(kParse + std::string("stage { decode_image {} }") + kCrop +
                              "\nstage { name: \"mine\" flip { field: \"none\" } }"));
}

TEST(OptimizerTest, RulesThatAreOffDoNotFire) {
  const std::string stages = kParse + std::string("stage { decode_image {} }") + kCrop;
  const PhysicalPlan plan = Lower(stages, kNoRules);
  EXPECT_THAT(plan.rules, IsEmpty());
  EXPECT_THAT(OpStages(plan), ElementsAre("parse_example", "decode_image", "random_resized_crop"));
}

// S-ROUND-2: which images are errors does not depend on the rule.
TEST(DecodeRegionRuleTest, OffTheDecodeIsToldOfTheCrop) {
  const std::string crop = "stage { name: \"rrc\" random_resized_crop { height: 4 width: 5 } }";
  std::vector<OpSpec> specs =
      OpsFromPlan(MakePlan(kParse + std::string("stage { decode_image {} }") + crop).message());
  std::vector<std::string> fired;
  DecodeRegionRule(false, &specs, &fired);
  EXPECT_THAT(fired, IsEmpty());
  ASSERT_EQ(specs.size(), 3u);
  const auto& decode = std::get<DecodeToCropOptions>(specs[1].options);
  EXPECT_EQ(decode.crop_stage, "rrc");
  EXPECT_EQ(std::get<augment::RandomResizedCropOptions>(decode.crop).width, 5);
  EXPECT_EQ(OpName(specs[1].options), "decode_image");
  EXPECT_TRUE(DrawsAtRandom(specs[1].options));
  EXPECT_TRUE(MakeHashingOp(specs[1]).ok());
}

// S-ROUND-3: nor on boxes or a mask that go along.
TEST(DecodeRegionRuleTest, ACropThatCarriesIsOneToo) {
  for (const char* targets : {"boxes {}", "mask: \"mask\""}) {
    for (const char* crop : {"random_resized_crop", "random_crop", "center_crop"}) {
      const std::string stages = absl::StrCat(kParse, "stage { decode_image {} } stage { ", crop,
                                              " { height: 4 width: 5 ", targets, " } }");
      std::vector<OpSpec> specs = OpsFromPlan(MakePlan(stages).message());
      std::vector<std::string> fired;
      DecodeRegionRule(true, &specs, &fired);
      ASSERT_EQ(specs.size(), 2u);
      EXPECT_TRUE(std::get<DecodeRegionOptions>(specs[1].options).targets.has_value());
      EXPECT_EQ(OpName(specs[1].options), absl::StrCat("decode_image+", crop));
      EXPECT_TRUE(MakeBuiltinOp(specs[1]).ok());
      EXPECT_THAT(FieldsOf(specs[1].options).reads,
                  ElementsAre("image/encoded", targets[0] == 'b' ? "boxes" : "mask"));
      EXPECT_EQ(FieldsOf(specs[1].options).writes[0], "image");

      specs = OpsFromPlan(MakePlan(stages).message());
      fired.clear();
      DecodeRegionRule(false, &specs, &fired);
      EXPECT_THAT(fired, IsEmpty());
      ASSERT_EQ(specs.size(), 3u);
      EXPECT_EQ(std::get<DecodeToCropOptions>(specs[1].options).crop_stage, crop);
      EXPECT_TRUE(std::holds_alternative<augment::TargetsOptions>(specs[2].options));
    }
  }
  // Of another geometry, or of another field, it is not.
  for (const char* other : {"flip { mask: \"mask\" }",
                            "random_resized_crop { field: \"x\" height: 4 width: 5 boxes {} }"}) {
    std::vector<OpSpec> specs = OpsFromPlan(
        MakePlan(kParse + absl::StrCat("stage { decode_image {} } stage { ", other, " }"))
            .message());
    std::vector<std::string> fired;
    DecodeRegionRule(true, &specs, &fired);
    EXPECT_TRUE(std::holds_alternative<augment::DecodeImageOptions>(specs[1].options)) << other;
  }
}

// Pass 1 of a cut may do again what draws nothing.
TEST(DecodeRegionRuleTest, OnlyADrawnCropDrawsAtRandom) {
  for (const bool enabled : {false, true}) {
    for (const char* crop : {"random_resized_crop", "random_crop", "center_crop"}) {
      std::vector<OpSpec> specs =
          OpsFromPlan(MakePlan(kParse + absl::StrCat("stage { decode_image {} } stage { ", crop,
                                                     " { height: 4 width: 5 } }"))
                          .message());
      std::vector<std::string> fired;
      DecodeRegionRule(enabled, &specs, &fired);
      EXPECT_EQ(DrawsAtRandom(specs[1].options), std::string(crop) != "center_crop") << crop;
    }
  }
}

TEST(FuseImageRuleTest, AllCropsAndResizesAreHeads) {
  const std::string decode = kParse + std::string("stage { decode_image {} }");
  for (const char* head :
       {"center_crop { height: 4 width: 5 }", "random_crop { height: 4 width: 5 }"}) {
    const std::string resized = absl::StrCat(decode, "stage { name: \"c\" ", head,
                                             " } stage { resize { height: 3 width: 3 method: "
                                             "\"area\" } }",
                                             kPixels);
    EXPECT_THAT(OpStages(Lower(resized)), ElementsAre("parse_example", "c")) << head;
    EXPECT_THAT(
        OpStages(Lower(decode + absl::StrCat("stage { name: \"c\" ", head, " }") + kPixels)),
        ElementsAre("parse_example", "c"))
        << head;
  }
  for (const char* resize : {"antialias: true", "method: \"nearest\"", "method: \"bicubic\"",
                             "method: \"area\" dtype: FLOAT32"}) {
    const std::string stages =
        absl::StrCat(decode, "stage { resize { height: 3 width: 3 ", resize, " } }", kPixels);
    EXPECT_THAT(OpStages(Lower(stages)), ElementsAre("parse_example", "decode_image", "resize"))
        << resize;
  }
  // A resize of another field, or one behind a resize, begins for itself.
  const PhysicalPlan twice =
      Lower(decode +
            "stage { name: \"a\" resize { height: 6 width: 6 } } stage { name: \"b\" resize { "
            "height: 3 width: 3 } }" +
            kPixels);
  EXPECT_THAT(OpStages(twice), ElementsAre("parse_example", "decode_image", "a", "b"));
}

TEST(DecodeRegionRuleTest, DctDownscaleMakesOneOpEvenWhereTheRuleIsOff) {
  const std::string stages =
      kParse + std::string("stage { decode_image { dct_downscale: true } }") + kCrop;
  EXPECT_THAT(OpStages(Lower(stages, {false, false, false})),
              ElementsAre("parse_example", "random_resized_crop"));
  const std::string decode = kParse + std::string("stage { decode_image { dct_downscale: true } }");
  for (const char* second :
       {"resize { height: 4 width: 5 }", "resize { height: 4 width: 5 boxes {} }",
        "random_resized_crop { height: 4 width: 5 mask: \"mask\" }"}) {
    for (const bool enabled : {false, true}) {
      std::vector<OpSpec> specs =
          OpsFromPlan(MakePlan(decode + absl::StrCat("stage { ", second, " }")).message());
      std::vector<std::string> fired;
      DecodeRegionRule(enabled, &specs, &fired);
      ASSERT_EQ(specs.size(), 2u) << second;
      EXPECT_TRUE(MakeBuiltinOp(specs[1]).ok()) << second;
    }
  }
  // Without it a resize stands alone: it needs all pixels.
  EXPECT_THAT(OpStages(Lower(kParse + std::string("stage { decode_image {} } stage { resize { "
                                                  "height: 4 width: 5 } }"))),
              ElementsAre("parse_example", "decode_image", "resize"));
}

// The stand-in for it has its fields: it adds one.
TEST(HashingOpTest, APeekedShapeStandsBesideItsImage) {
  const auto specs = OpsFromPlan(MakePlan("stage { peek_image_shape {} }").message());
  ASSERT_EQ(specs.size(), 1u);
  Schema input;
  input.Set({"image/encoded", DType::kBytes, Shape{Shape::kUnknown}});
  const auto schema = (*MakeHashingOp(specs[0]))->Resolve(input);
  ASSERT_TRUE(schema.ok()) << schema.status();
  ASSERT_NE(schema->Find("image/shape"), nullptr);
  EXPECT_EQ(schema->Find("image/shape")->dtype, DType::kI64);
  EXPECT_EQ(schema->Find("image/shape")->shape, Shape{3});
  EXPECT_NE(schema->Find("image/encoded"), nullptr);
}

// S-ROUND-1.
TEST(OptimizerTest, NoRuleChangesABit) {
  const std::string stages =
      "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } feature { key: "
      "\"thumb\" name: \"image\" dtype: BYTES } feature { key: \"label\" dtype: INT64 } } }"
      "stage { peek_image_shape {} } stage { decode_image {} }" +
      std::string(kCrop) +
      "stage { flip {} } stage { normalize { mean: 1 stddev: 2 } } stage { one_hot { depth: 3 } }";
  const auto expected = Execute(Lower(stages, kNoRules), 8);
  ASSERT_EQ(expected.size(), 3u);  // image, label, image/shape
  for (int bits = 1; bits < 16; ++bits) {
    const OptimizerOptions options{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0,
                                   (bits & 8) != 0};
    EXPECT_TRUE(Execute(Lower(stages, options), 8) == expected) << bits;
  }
}

}  // namespace
}  // namespace millrace::pipeline
