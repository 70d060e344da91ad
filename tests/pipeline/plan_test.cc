#include "pipeline/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "pipeline/plan_message_internal.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSource[] = "stage { tfrecord { files: \"a\" } }\n";
constexpr char kBatch[] = "stage { batch { size: 4 } }\n";

Plan Make(const std::string& text, const Variables& variables = {}) {
  auto plan = Plan::FromText(text, "p", variables);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::string ErrorOf(const std::string& text) {
  const auto plan = Plan::FromText(text, "p");
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

// The error of `stage` as the second line, between a source and a batch.
std::string StageError(const std::string& stage) {
  return ErrorOf(kSource + ("stage { " + stage + " }\n") + kBatch);
}

std::vector<std::string> Names(const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& stage : plan.message().pipeline.stage()) names.push_back(stage.name());
  return names;
}

// S-PLAN-1.
TEST(PlanTest, UnnamedStagesAreNamedAfterTheirOps) {
  EXPECT_THAT(Names(Make(std::string(kSource) +
                         "stage { flip {} } stage { name: \"flip_2\" flip {} }"
                         "stage { flip {} } stage { name: \"mine\" flip {} }" +
                         kBatch)),
              ElementsAre("tfrecord", "flip", "flip_2", "flip_3", "mine", "batch"));
}

// S-PLAN-2.
TEST(PlanTest, DefaultsAreFilledIn) {
  const Plan plan = Make(std::string(kSource) +
                         "stage { parse_example { feature { key: \"x\" dtype: "
                         "INT64 } } } stage { decode_image {} } stage { "
                         "random_resized_crop { height: 2 width: 3 } }" +
                         kBatch + "stage { prefetch {} }");
  const auto& p = plan.message().pipeline;
  EXPECT_EQ(p.semantics_version(), 1u);
  EXPECT_EQ(p.stage(0).tfrecord().compression(), "auto");
  EXPECT_EQ(p.stage(0).tfrecord().max_record_bytes(), uint64_t{1} << 30);
  EXPECT_EQ(p.stage(1).parse_example().feature(0).name(), "x");
  EXPECT_EQ(p.stage(2).decode_image().field(), "image/encoded");
  EXPECT_EQ(p.stage(2).decode_image().output(), "image");
  EXPECT_EQ(p.stage(2).decode_image().channels(), 3u);
  EXPECT_THAT(p.stage(3).random_resized_crop().area(), ElementsAre(0.08f, 1.0f));
  EXPECT_EQ(p.stage(5).prefetch().batches(), 2u);
}

TEST(PlanTest, ExplicitZeroProbabilityAndScaleAreKept) {
  const Plan plan = Make(std::string(kSource) +
                         "stage { flip { probability: 0 } }"
                         "stage { cast { field: \"x\" dtype: INT32 scale: 0 } }" +
                         kBatch);
  EXPECT_EQ(plan.message().pipeline.stage(1).flip().probability(), 0.0f);
  EXPECT_EQ(plan.message().pipeline.stage(2).cast().scale(), 0.0f);
}

// S-PLAN-3.
TEST(PlanTest, StagesInImpossibleOrderAreRefusedAtTheirPlace) {
  const std::string s = kSource;
  const std::string b = kBatch;
  EXPECT_EQ(ErrorOf(""), "p: a plan needs stages; the first is a source");
  EXPECT_EQ(
      ErrorOf(b),
      "p:1:1: the first stage must be a source (tfrecord, range, push, concatenate, mix), not "
      "batch");
  EXPECT_EQ(ErrorOf(s + s + b),
            "p:2:1: a second source; a plan has one, first (concatenate and mix join several)");
  EXPECT_EQ(ErrorOf(s), "p:1:1: no batch stage; add stage { batch { size: ... } }");
  EXPECT_EQ(ErrorOf(s + b + b), "p:3:1: a second batch; the first is at p:2:1");
  EXPECT_EQ(ErrorOf(s + b + "stage { flip {} }"),
            "p:3:1: flip works on samples and must stand before the batch at p:2:1");
  EXPECT_EQ(ErrorOf(s + b + "stage { global_shuffle {} }"),
            "p:3:1: global_shuffle permutes samples and must stand before the batch at p:2:1");
  EXPECT_EQ(ErrorOf(s + "stage { prefetch {} }\n" + b), "p:2:1: prefetch must stand after batch");
  EXPECT_EQ(ErrorOf(s + b + "stage { prefetch {} }\n stage { prefetch {} }\n"),
            "p:4:2: a second prefetch; the first is at p:3:1");
  EXPECT_EQ(ErrorOf(s + "stage { name: \"x\" }\n" + b),
            "p:2:1: this stage has no op (tfrecord, parse_example, batch, ...)");
}

// S-PLAN-3.
TEST(PlanTest, NothingThatNeedsAnEndFollowsAnEndlessRepeat) {
  const std::string s = kSource;
  const std::string b = kBatch;
  EXPECT_THAT(ErrorOf(s + "stage { repeat {} }\nstage { global_shuffle {} }\n" + b),
              HasSubstr("p:3:1: global_shuffle after the endless repeat at p:2:1"));
  EXPECT_THAT(ErrorOf(s + "stage { repeat {} }\n" + b + "stage { repeat { epochs: 2 } }"),
              HasSubstr("p:4:1: repeat after the endless repeat at p:2:1"));
  Make(s + "stage { repeat {} } stage { take { count: 9 } } stage { global_shuffle {} }" + b);
  Make(s + "stage { repeat { epochs: 2 } } stage { global_shuffle {} }" + b);
}

// S-PLAN-3.
TEST(PlanTest, OrderStagesMayFollowBatchAndMixWithMaps) {
  Make(std::string(kSource) +
       "stage { flip {} } stage { global_shuffle {} } stage { skip { count: 1 } } stage { resize { "
       "height: 1 width: 1 } }" +
       kBatch +
       "stage { skip { count: 1 } } stage { take { count: 3 } } stage { prefetch {} } "
       "stage { repeat {} }");
}

// S-PLAN-1.
TEST(PlanTest, StageNamesAreUniqueAndPlain) {
  EXPECT_EQ(ErrorOf(std::string(kSource) +
                    "stage { name: \"x\" flip {} }\nstage {\n  name: \"x\"\n  "
                    "flip {} }\n" +
                    kBatch),
            "p:4:3: a second stage is called \"x\"; the first is at p:2:1");
  EXPECT_THAT(StageError("name: \"a b\" flip {}"), HasSubstr("p:2:9: a stage's name has only"));
  EXPECT_THAT(StageError("name: \"" + std::string(65, 'x') + "\" flip {}"),
              HasSubstr("at most 64"));
}

// S-PLAN-2.
TEST(PlanTest, UnknownSemanticsVersionIsRefused) {
  EXPECT_EQ(ErrorOf(std::string(kSource) + kBatch + "semantics_version: 2"),
            "p:3:1: semantics_version 2 is not known here; this program has 1");
}

TEST(PlanTest, SourceOptionsAreChecked) {
  const std::string b = kBatch;
  EXPECT_EQ(ErrorOf("stage { tfrecord {} }" + b),
            "p:1:9: files is empty; name at least one file or pattern");
  EXPECT_EQ(ErrorOf("stage { tfrecord { files: \"\" } }" + b), "p:1:20: files has an empty name");
  EXPECT_EQ(ErrorOf("stage { tfrecord { files: \"a\" compression: \"gzp\" } }" + b),
            "p:1:31: compression \"gzp\" is not known; did you mean \"gzip\"?");
  EXPECT_THAT(
      ErrorOf("stage { tfrecord { files: \"a\" max_record_bytes: 18446744073709551615 } }" + b),
      HasSubstr("p:1:31: max_record_bytes is 18446744073709551615 but must be in"));
}

TEST(PlanTest, FeatureOptionsAreChecked) {
  const auto feature = [](const std::string& f) {
    return StageError("parse_example { " + f + " }");
  };
  EXPECT_EQ(feature(""), "p:2:9: feature: none given; name those that are used");
  EXPECT_EQ(feature("feature { dtype: INT64 }"), "p:2:25: a feature needs a key");
  EXPECT_THAT(feature("feature { key: \"a\" }"),
              HasSubstr("p:2:25: dtype of feature \"a\" must be"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: UINT8 }"), HasSubstr("p:2:44: dtype of"));
  EXPECT_EQ(
      feature(
          "feature { key: \"a\" dtype: INT64 } feature { key: \"a\" name: \"b\" dtype: INT64 }"),
      "p:2:69: feature \"a\" is there twice");
  EXPECT_EQ(
      feature(
          "feature { key: \"a\" dtype: INT64 } feature { key: \"b\" name: \"a\" dtype: INT64 }"),
      "p:2:78: two features are named \"a\"");
  EXPECT_THAT(feature("feature { key: \"record\" dtype: INT64 }"), HasSubstr("is taken"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: BYTES shape: 2 }"),
              HasSubstr("p:2:57: a BYTES feature has no shape"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 shape: [2, 0] }"),
              HasSubstr("must be > 0"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 shape: [2, -1] }"),
              HasSubstr("p:2:57: only the first extent of shape may be -1"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 shape: [1,1,1,1,1,1] }"),
              HasSubstr("more than 5 extents"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 shape: [4611686018427387904, 4] }"),
              HasSubstr("elements"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 default_float: 2 }"),
              HasSubstr("p:2:57: default_float does not fit the feature's dtype INT64"));
}

TEST(PlanTest, ImageOptionsAreChecked) {
  EXPECT_EQ(StageError("decode_image { channels: 4 }"), "p:2:24: channels is 4 but must be 1 or 3");
  EXPECT_THAT(StageError("resize { height: 3 }"),
              HasSubstr("p:2:9: width is 0 but must be in [1, 65536]"));
  EXPECT_THAT(StageError("random_resized_crop { height: 99999 width: 1 }"),
              HasSubstr("p:2:31: height"));
  const std::string crop = "random_resized_crop { height: 1 width: 1 ";
  for (const char* area : {"0.5", "[0, 1]", "[0.9, 0.1]", "[0.5, 1.5]", "[nan, 1]", "[0.1, nan]"}) {
    EXPECT_EQ(StageError(crop + "area: " + area + "}"),
              "p:2:50: area must be two numbers, 0 < low <= high <= 1")
        << area;
  }
  EXPECT_EQ(StageError(crop + "aspect: [1, inf] }"),
            "p:2:50: aspect must be two numbers, 0 < low <= high, finite");
  EXPECT_THAT(StageError("flip { probability: 1.5 }"), HasSubstr("p:2:16: probability is 1.5"));
  EXPECT_THAT(StageError("flip { probability: nan }"), HasSubstr("p:2:16: probability is nan"));
}

TEST(PlanTest, NumericOptionsAreChecked) {
  EXPECT_EQ(StageError("normalize {}"), "p:2:9: mean is empty; give one number per channel");
  EXPECT_EQ(StageError("normalize { mean: [1, 2] stddev: 1 }"),
            "p:2:34: stddev has 1 numbers but mean has 2");
  EXPECT_EQ(StageError("normalize { mean: 1 stddev: 0 }"), "p:2:29: stddev must be > 0 and finite");
  EXPECT_EQ(StageError("normalize { mean: nan stddev: 1 }"), "p:2:21: mean must be finite");
  EXPECT_EQ(StageError("cast { dtype: INT32 }"), "p:2:9: field must name a field");
  EXPECT_THAT(StageError("cast { field: \"x\" }"), HasSubstr("p:2:9: dtype must be a numeric"));
  EXPECT_THAT(StageError("cast { field: \"x\" dtype: BYTES }"), HasSubstr("p:2:27: dtype"));
  EXPECT_THAT(StageError("cast { field: \"x\" dtype: INT8 }"),
              HasSubstr("did you mean \"UINT8\"?"));
  EXPECT_THAT(StageError("one_hot {}"), HasSubstr("p:2:9: depth is 0"));
  EXPECT_THAT(StageError("take {}"), HasSubstr("p:2:9: count is 0"));
  EXPECT_THAT(StageError("skip {}"), HasSubstr("p:2:9: count is 0"));
  EXPECT_THAT(ErrorOf(std::string(kSource) + "stage { batch {} }"), HasSubstr("p:2:9: size is 0"));
  EXPECT_EQ(ErrorOf(std::string(kSource) + "stage { batch { size: 2147483649 } }"),
            "p:2:17: size is 2147483649 but must be in [1, 2147483648]");
  EXPECT_THAT(ErrorOf(std::string(kSource) + kBatch + "stage { prefetch { batches: 5000 } }"),
              HasSubstr("p:3:20: batches is 5000"));
}

constexpr char kFilter[] = "stage { filter { predicate: \"x > 1\" } }\n";

// S-PLAN-11.
TEST(PlanTest, BehindACutOnlyTakeSkipAndShuffleMayStandBeforeTheBatch) {
  const std::string head = std::string(kSource) + kFilter;
  Make(head +
       "stage { take { count: 1 } } stage { skip { count: 1 } } stage { shuffle { "
       "buffer_size: 1 } } stage { flip {} }" +
       kBatch + "stage { repeat {} }");
  EXPECT_EQ(
      ErrorOf(head + "stage { repeat {} }\n" + kBatch),
      "p:3:1: repeat cannot follow the filter at p:2:1, behind which the number of samples is "
      "not known; put it in front of it or behind the batch");
  for (const char* stage : {"global_shuffle {}", "shard { num_shards: 2 }"}) {
    EXPECT_THAT(ErrorOf(head + "stage { " + stage + " }\n" + kBatch),
                HasSubstr("is not known; put it in front of it"))
        << stage;
  }
  EXPECT_EQ(ErrorOf(std::string(kSource) + kBatch + kFilter),
            "p:3:1: filter works on samples and must stand before the batch at p:2:1");
}

// S-PLAN-11.
TEST(PlanTest, UnbatchStandsOnceDirectlyBehindFiltersAndBeforeRandomOps) {
  const std::string s = kSource;
  const std::string u = "stage { unbatch {} }\n";
  Make(s + kFilter + "stage { identity {} }" + u + "stage { take { count: 1 } } stage { flip {} }" +
       kFilter + kBatch);
  EXPECT_EQ(ErrorOf(s + u + u + kBatch), "p:3:1: a second unbatch; the first is at p:2:1");
  EXPECT_EQ(ErrorOf(s + kFilter + "stage { take { count: 1 } }\n" + u + kBatch),
            "p:4:1: take at p:3:1 stands between a filter and this unbatch; put it in front of the "
            "filter or behind the unbatch");
  EXPECT_EQ(ErrorOf(s + "stage { flip {} }\n" + u + kBatch),
            "p:3:1: flip at p:2:1 draws for each sample that comes out of this unbatch; put it "
            "behind the unbatch");
}

// S-PLAN-3.
TEST(PlanTest, ShufflesThatMakeNoSenseAreRefused) {
  const std::string s = kSource;
  const std::string shuffle = "stage { shuffle { buffer_size: 8 } }\n";
  EXPECT_EQ(
      ErrorOf(s + shuffle + "stage { global_shuffle {} }\n" + kBatch),
      "p:3:1: global_shuffle permutes everything, which makes the shuffle at p:2:1 pointless; "
      "drop one");
  EXPECT_EQ(ErrorOf(s + "stage { repeat {} }\n" + shuffle + kBatch),
            "p:3:1: shuffle after the endless repeat at p:2:1 would mix epochs; put the repeat "
            "behind it");
  EXPECT_EQ(ErrorOf(s + kBatch + shuffle),
            "p:3:1: shuffle permutes samples and must stand before the batch at p:2:1");
  Make(s + "stage { global_shuffle {} }" + shuffle + "stage { repeat {} }" + kBatch);
}

// S-PLAN-3.
TEST(PlanTest, InterleaveStandsDirectlyAfterItsFiles) {
  const std::string s = kSource;
  const std::string interleave = "stage { interleave { cycle_length: 4 } }\n";
  const Plan plan = Make(s + interleave + kBatch);
  EXPECT_EQ(plan.message().pipeline.stage(1).interleave().block_length(), 1u);
  EXPECT_EQ(ErrorOf(s + "stage { take { count: 1 } }\n" + interleave + kBatch),
            "p:3:1: interleave reads files in turns and must stand directly after tfrecord");
  EXPECT_THAT(ErrorOf("stage { range { count: 9 } }\n" + interleave + kBatch),
              HasSubstr("p:2:1: interleave reads files"));
}

// S-PLAN-12.
TEST(PlanTest, OneBatchStageOfAnyKind) {
  const std::string padded = "stage { padded_batch { size: 4 } }\n";
  for (const std::string& batch :
       {padded, std::string("stage { ragged_batch { size: 4 } }\n"),
        std::string(
            "stage { bucket_by_length { field: \"x\" boundary: 3 batch_size: [4, 2] } }\n")}) {
    Make(kSource + batch + "stage { custom { op: \"mixup\" } }");
    EXPECT_EQ(ErrorOf(kSource + batch + kBatch), "p:3:1: a second batch; the first is at p:2:1");
  }
}

// S-PLAN-12.
TEST(PlanTest, LanesDivideTheBatchSizeOfEveryBucket) {
  const std::string s = kSource;
  Make("lanes: 4 " + s + kBatch);
  EXPECT_EQ(ErrorOf(s + kBatch + "lanes: 3"),
            "p:3:1: lanes is 3, which does not divide the 4 rows of the batch at p:2:1");
  EXPECT_THAT(ErrorOf(s + "stage { bucket_by_length { field: \"x\" boundary: 3 batch_size: [4, 2] "
                          "} } lanes: 4"),
              HasSubstr("does not divide the 2 rows"));
  EXPECT_THAT(ErrorOf(s + kBatch + "lanes: 65537"), HasSubstr("must be in [1, 65536]"));
}

std::string Input(const std::string& stages) { return "input { " + stages + " }\n"; }
std::string Mix(const std::string& inputs) { return "stage { mix {\n" + inputs + "} }\n"; }
std::string Concatenate(const std::string& inputs) {
  return "stage { concatenate {\n" + inputs + "} }\n";
}

// S-PLAN-13, S-PLAN-1, S-PLAN-2.
TEST(PlanTest, JoinsHoldPipelinesOfSourceAndOrder) {
  const std::string file = "stage { tfrecord { files: \"a\" } }";
  const Plan plan =
      Make(Mix(Input(file + "stage { interleave {} } stage { repeat {} }") + Input(file)) +
           "stage { take { count: 3 } }" + kBatch);
  const auto& mix = plan.message().pipeline.stage(0).mix();
  EXPECT_THAT(mix.weight(), ElementsAre(1, 1));
  EXPECT_EQ(mix.input(0).stage(0).name(), "tfrecord");
  EXPECT_EQ(mix.input(1).stage(0).name(), "tfrecord_2");
  EXPECT_EQ(mix.input(1).stage(0).tfrecord().compression(), "auto");
  EXPECT_EQ(mix.input(0).stage(1).interleave().cycle_length(), 1u);
  EXPECT_EQ(Make(plan.ToText()).Fingerprint(), plan.Fingerprint());
}

// S-PLAN-13.
TEST(PlanTest, WhatCannotStandInAnInputIsRefusedAtItsPlace) {
  const std::string file = "stage { tfrecord { files: \"a\" } }";
  const auto error = [&](const std::string& input) {
    return ErrorOf(Concatenate(Input(file) + Input(input)) + kBatch);
  };
  EXPECT_EQ(error(file + " stage { flip {} }"),
            "p:3:43: flip cannot stand in an input, which has a source and order stages only; put "
            "it behind the join");
  EXPECT_THAT(error(file + kBatch), HasSubstr("p:3:42: batch cannot stand in an input"));
  EXPECT_THAT(error(file + kFilter), HasSubstr("p:3:42: filter cannot stand in an input"));
  EXPECT_EQ(error("seed: 3"), "p:3:9: seed belongs to the whole plan, not to an input");
  EXPECT_EQ(error("lanes: 3"), "p:3:9: lanes belongs to the whole plan, not to an input");
  EXPECT_THAT(error("semantics_version: 1"), HasSubstr("p:3:9: semantics_version belongs"));
  EXPECT_EQ(error(""), "p:3:1: an input needs stages; the first is a source");
  EXPECT_THAT(error("stage { take { count: 1 } }"), HasSubstr("p:3:9: the first stage must be"));
  EXPECT_EQ(error("stage { push {} }"), "p:3:9: push cannot be an input: its length is unknown");
  EXPECT_EQ(error("stage { range { count: 4 } }"),
            "p:3:1: records and the numbers of a range cannot be joined");
  EXPECT_EQ(ErrorOf(Concatenate(Input("stage { name: \"x\" tfrecord { files: \"a\" } }")) +
                    "stage { name: \"x\" flip {} }" + kBatch),
            "p:4:9: a second stage is called \"x\"; the first is at p:2:9");
  EXPECT_THAT(error("stage { tfrecord { files: \"\" } }"), HasSubstr("p:3:28: files has an empty"));
  EXPECT_THAT(error("stage { name: \"x\" }"), HasSubstr("p:3:9: this stage has no op"));
}

// S-PLAN-13.
TEST(PlanTest, EndlessInputsAreLastInAConcatenateAndAllOfAMix) {
  const std::string file = "stage { tfrecord { files: \"a\" } }";
  const std::string endless = file + "stage { repeat {} }";
  const std::string more = std::string("stage { global_shuffle {} }\n") + kBatch;
  EXPECT_EQ(ErrorOf(Concatenate(Input(endless) + Input(file)) + kBatch),
            "p:3:1: this input is never reached: the repeat at p:2:42 has no end");
  Make(Concatenate(Input(file) + Input(endless)) + kBatch);
  EXPECT_THAT(ErrorOf(Concatenate(Input(file) + Input(endless)) + more),
              HasSubstr("p:5:1: global_shuffle after the endless repeat at p:3:42"));
  EXPECT_THAT(ErrorOf(Mix(Input(endless) + Input(endless)) + more),
              HasSubstr("after the endless repeat at"));
  Make(Mix(Input(endless) + Input(file)) + more);
}

// S-PLAN-14.
TEST(PlanTest, WhatIsPushedCannotBeRewound) {
  const std::string push = "stage { push {} }\n";
  Make(push + "stage { take { count: 9 } } stage { shuffle { buffer_size: 4 } }" + kBatch);
  for (const char* stage : {"repeat {}", "repeat { epochs: 2 }", "global_shuffle {}",
                            "shard { num_shards: 2 index: 1 }"}) {
    EXPECT_THAT(ErrorOf(push + "stage { " + stage + " }\n" + kBatch),
                HasSubstr("cannot follow push: what is pushed comes once"))
        << stage;
  }
  EXPECT_THAT(ErrorOf(push + kBatch + "stage { repeat {} }"), HasSubstr("p:3:1: repeat cannot"));
}

TEST(PlanTest, OptionsOfOrderStagesAndJoinsAreChecked) {
  EXPECT_EQ(StageError("shuffle {}"), "p:2:9: buffer_size is 0 but must be in [1, 134217728]");
  EXPECT_THAT(StageError("shuffle { buffer_size: 134217729 }"), HasSubstr("p:2:19: buffer_size"));
  EXPECT_THAT(StageError("shard {}"), HasSubstr("p:2:9: num_shards is 0"));
  EXPECT_EQ(StageError("shard { num_shards: 3 index: 3 }"),
            "p:2:31: index is 3 but must be in [0, 2]");
  EXPECT_EQ(StageError("global_shuffle { window: 9 }"),
            "p:2:26: window mixes blocks; it needs block_bytes");
  EXPECT_THAT(ErrorOf(std::string("stage { range {} }") + kBatch), HasSubstr("p:1:9: count is 0"));
  EXPECT_THAT(ErrorOf(Mix("") + kBatch), HasSubstr("p:1:9: input: none given"));
  const std::string input = Input("stage { range { count: 4 } }");
  EXPECT_EQ(ErrorOf(Mix(input + "weight: [1, 2]") + kBatch),
            "p:3:1: weight has 2 numbers for 1 inputs");
  EXPECT_EQ(ErrorOf(Mix(input + "weight: -1") + kBatch), "p:3:1: weight must be > 0 and finite");
}

TEST(PlanTest, OptionsOfCutsAndBatchesAreChecked) {
  EXPECT_THAT(StageError("filter {}"), HasSubstr("p:2:9: predicate is empty"));
  EXPECT_EQ(Plan::FromText(std::string(kSource) +
                               "stage { filter { predicate: \"x\" materialize: true } }" + kBatch,
                           "p")
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(StageError("unbatch { field: [\"a\", \"a\"] }"), "p:2:19: field \"a\" is there twice");
  const auto batch = [](const std::string& stage) {
    return ErrorOf(std::string(kSource) + "stage { " + stage + " }");
  };
  EXPECT_THAT(batch("padded_batch {}"), HasSubstr("p:2:9: size is 0"));
  EXPECT_THAT(batch("ragged_batch {}"), HasSubstr("p:2:9: size is 0"));
  EXPECT_EQ(batch("padded_batch { size: 1 padding {} }"), "p:2:32: a padding must name a field");
  EXPECT_EQ(batch("padded_batch { size: 1 padding { field: \"x\" } padding { field: \"x\" } }"),
            "p:2:65: field \"x\" has two paddings");
  const auto bucket = [&](const std::string& options) {
    return batch("bucket_by_length { " + options + " }");
  };
  EXPECT_EQ(bucket(""), "p:2:9: field must name a field");
  EXPECT_THAT(bucket("field: \"x\""), HasSubstr("p:2:9: boundary: none given"));
  EXPECT_EQ(bucket("field: \"x\" boundary: [4, 4] batch_size: [1, 1, 1]"),
            "p:2:39: boundary must ascend, from 1 on");
  EXPECT_THAT(bucket("field: \"x\" boundary: 0 batch_size: [1, 1]"), HasSubstr("must ascend"));
  EXPECT_EQ(bucket("field: \"x\" boundary: [4, 8] batch_size: [1, 1]"),
            "p:2:56: batch_size has 2 numbers; 2 boundaries make 3 buckets");
  EXPECT_THAT(bucket("field: \"x\" boundary: 4 batch_size: [1, 0]"),
              HasSubstr("p:2:51: batch_size is 0"));
}

TEST(PlanTest, OptionsOfDecodeRawAndCustomAreChecked) {
  const Plan plan = Make(std::string(kSource) + "stage { decode_raw { shape: [-1, 2] } }" + kBatch);
  EXPECT_EQ(plan.message().pipeline.stage(1).decode_raw().output(), "record");
  EXPECT_EQ(plan.message().pipeline.stage(1).decode_raw().dtype(), proto::UINT8);
  EXPECT_EQ(StageError("decode_raw { shape: [2, -1] }"),
            "p:2:22: only the first extent of shape may be -1");
  EXPECT_THAT(StageError("decode_raw { shape: [-1, -1] }"), HasSubstr("only the first extent"));
  EXPECT_THAT(StageError("decode_raw { shape: -2 }"), HasSubstr("must be > 0"));
  EXPECT_THAT(StageError("decode_raw { dtype: BYTES }"), HasSubstr("p:2:22: dtype must be a"));
  EXPECT_EQ(Make(std::string(kSource) + "stage { custom { op: \"x\" } }" + kBatch)
                .message()
                .pipeline.stage(1)
                .custom()
                .version(),
            1u);
  EXPECT_EQ(StageError("custom {}"), "p:2:9: op is empty; name the op as it is registered");
}

TEST(PlanTest, TextReadsBackAsTheSamePlan) {
  const Plan plan = Make(
      "name: \"\\\"$${x}\" seed: 18446744073709551615\n"
      "stage { tfrecord { files: [\"$$a\", \"b\\n\"] } } stage { flip { probability: 0.1 } }"
      "stage { normalize { mean: [0.1, 123.675] stddev: [1e-30, 3] } }" +
      std::string(kBatch));
  const Plan again = Make(plan.ToText());
  EXPECT_EQ(again.message().pipeline.SerializeAsString(),
            plan.message().pipeline.SerializeAsString());
  EXPECT_EQ(again.ToText(), plan.ToText());
  EXPECT_EQ(again.Fingerprint(), plan.Fingerprint());
  EXPECT_EQ(plan.message().pipeline.stage(0).tfrecord().files(0), "$a");
}

// S-FINGERPRINT-1, -2.
TEST(PlanTest, FingerprintIgnoresNamesOfFilesRingAndDefaultsWrittenOut) {
  const uint64_t base = Make(std::string(kSource) + "stage { flip {} }" + kBatch).Fingerprint();
  for (const char* text :
       {"name: \"p\" stage { tfrecord { files: \"elsewhere\" files: \"b\" } } stage { flip {} } "
        "stage "
        "{ batch { size: 4 } }",
        "stage { tfrecord { files: \"a\" } } stage { flip {} } stage { batch { size: 4 } } stage { "
        "prefetch { batches: 7 } }",
        "semantics_version: 1 stage { name: \"tfrecord\" tfrecord { files: \"a\" compression: "
        "\"auto\" } } stage { flip { probability: 0.5 } } stage { batch { size: 4 drop_remainder: "
        "false } }"}) {
    EXPECT_EQ(Make(text).Fingerprint(), base) << text;
  }
}

// S-FINGERPRINT-2.
TEST(PlanTest, FingerprintCoversWhatChangesResults) {
  const std::string s = kSource;
  const std::string b = kBatch;
  std::vector<uint64_t> prints;
  for (const std::string& text :
       {s + b, s + b + "seed: 1", s + "stage { flip {} }" + b,
        s + "stage { name: \"f\" flip {} }" + b, s + "stage { flip { probability: 0.4 } }" + b,
        s + "stage { batch { size: 5 } }", s + "stage { batch { size: 4 drop_remainder: true } }",
        s + "stage { global_shuffle {} }" + b, s + b + "stage { repeat {} }",
        s + "stage { repeat {} }" + b, "stage { tfrecord { files: \"a\" skip_crc: true } }" + b}) {
    prints.push_back(Make(text).Fingerprint());
  }
  std::ranges::sort(prints);
  EXPECT_EQ(std::ranges::adjacent_find(prints), prints.end());
}

// S-FINGERPRINT-2.
TEST(PlanTest, FingerprintCoversLanesAndEveryNewOption) {
  const std::string s = kSource;
  const std::string b = kBatch;
  const auto bucket = [](const std::string& more) {
    return "stage { bucket_by_length { field: \"x\" boundary: 3 batch_size: [4, 2] " + more +
           " } }";
  };
  const std::string range = Input("stage { range { count: 4 } }");
  std::vector<uint64_t> prints;
  for (const std::string& text : {s + b,
                                  s + b + "lanes: 2",
                                  s + b + "lanes: 4",
                                  s + "stage { interleave {} }" + b,
                                  s + "stage { interleave { block_length: 2 } }" + b,
                                  s + "stage { interleave { shuffle_files: true } }" + b,
                                  s + "stage { shuffle { buffer_size: 2 } }" + b,
                                  s + "stage { shuffle { buffer_size: 3 } }" + b,
                                  s + "stage { shard { num_shards: 2 } }" + b,
                                  s + "stage { shard { num_shards: 2 index: 1 } }" + b,
                                  s + "stage { global_shuffle { block_bytes: 9 } }" + b,
                                  s + kFilter + b,
                                  s + "stage { filter { predicate: \"x > 2\" } }" + b,
                                  s + "stage { unbatch {} }" + b,
                                  s + "stage { unbatch { field: \"x\" } }" + b,
                                  s + "stage { identity {} }" + b,
                                  s + "stage { custom { op: \"a\" } }" + b,
                                  s + "stage { custom { op: \"a\" version: 2 } }" + b,
                                  s + "stage { custom { op: \"a\" options: \"z\" } }" + b,
                                  s + "stage { decode_raw {} }" + b,
                                  s + "stage { decode_raw { shape: -1 } }" + b,
                                  s + "stage { padded_batch { size: 4 } }",
                                  s + "stage { ragged_batch { size: 4 } }",
                                  s + bucket(""),
                                  s + bucket("pad_to_bucket_boundary: true"),
                                  s + bucket("padding { field: \"x\" }"),
                                  Mix(range + range) + b,
                                  Mix(range + range + "weight: [1, 2]") + b,
                                  Concatenate(range + range) + b}) {
    prints.push_back(Make(text).Fingerprint());
  }
  std::ranges::sort(prints);
  EXPECT_EQ(std::ranges::adjacent_find(prints), prints.end());
}

// S-FINGERPRINT-1.
TEST(PlanTest, OneLaneWrittenOutAndPathsOfInputsDoNotCount) {
  EXPECT_EQ(Make(std::string(kSource) + kBatch + "lanes: 1").Fingerprint(),
            Make(std::string(kSource) + kBatch).Fingerprint());
  EXPECT_EQ(Make(Concatenate(Input("stage { tfrecord { files: \"a\" } }")) + kBatch).Fingerprint(),
            Make(Concatenate(Input("stage { tfrecord { files: \"b\" } }")) + kBatch).Fingerprint());
}

// S-FINGERPRINT-3: resume tokens and checkpoints hold this number.
TEST(PlanTest, FingerprintNeverChanges) {
  EXPECT_EQ(Make(std::string(kSource) + kBatch).Fingerprint(), 9837109802709686586u);
}

TEST(PlanTest, VariablesFillAPlan) {
  const Plan plan =
      Make("stage { tfrecord { files: \"${DATA}/x\" } } stage { batch { size: ${B:-8} } }",
           {{"DATA", "/d"}});
  EXPECT_EQ(plan.message().pipeline.stage(0).tfrecord().files(0), "/d/x");
  EXPECT_EQ(plan.message().pipeline.stage(1).batch().size(), 8u);
}

TEST(PlanTest, MissingFileIsNotFound) {
  EXPECT_EQ(Plan::FromFile("/no/such.pbtxt").status().code(), absl::StatusCode::kNotFound);
}

// The options of an op, and of the messages in it, that docs/pipeline.md does not name as code.
std::vector<std::string> Undocumented(const google::protobuf::Descriptor& type,
                                      const std::string& page) {
  std::vector<std::string> missing;
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* field = type.field(i);
    if (page.find("`" + field->name() + "`") == std::string::npos) {
      missing.push_back(type.name() + "." + field->name());
    }
    if (field->message_type() == nullptr || field->message_type()->name() == "Pipeline") continue;
    for (const std::string& more : Undocumented(*field->message_type(), page)) {
      missing.push_back(more);
    }
  }
  return missing;
}

// What stands between fences.
std::string Examples(const std::string& page) {
  std::string text;
  bool inside = false;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line == "```") {
      inside = !inside;
    } else if (inside) {
      text += line + "\n";
    }
  }
  return text;
}

TEST(PlanTest, ReferencePageHasEveryStageAndOptionAndItsExamplesParse) {
  const char* root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  std::ifstream file(std::string(root) + "/docs/pipeline.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(Undocumented(*proto::Stage::descriptor(), page), ElementsAre());
  proto::Pipeline pipeline;
  const auto parsed = ParseTextProto(Examples(page), "page", {{"DATA", "/d"}}, &pipeline);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::set<std::string> shown;
  for (const proto::Stage& stage : pipeline.stage()) shown.insert(OpName(stage));
  for (int i = 0; i < proto::Stage::descriptor()->field_count(); ++i) {
    const std::string& op = proto::Stage::descriptor()->field(i)->name();
    EXPECT_TRUE(op == "name" || shown.contains(op)) << op << " has no example";
  }
}

TEST(PlanTest, AllExamplePlansAreFine) {
  const char* root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  int plans = 0;
  for (const char* name :
       {"fashion_mnist/train.pbtxt", "fashion_mnist/eval.pbtxt", "imagenet/train.pbtxt"}) {
    const std::string path = std::string(root) + "/examples/" + name;
    ASSERT_TRUE(std::filesystem::exists(path)) << path;
    const auto plan = Plan::FromFile(path, {{"DATA", "/data"}, {"BATCH", "32"}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT(plan->ToText(), HasSubstr("size: 32"));
    ++plans;
  }
  EXPECT_EQ(plans, 3);
  EXPECT_TRUE(Plan::FromFile(std::string(root) + "/examples/fashion_mnist/train.pbtxt").ok());
}

}  // namespace
}  // namespace millrace::pipeline
