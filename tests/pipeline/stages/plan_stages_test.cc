#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pipeline/plan/message.h"
#include "tests/pipeline/plan/plan_texts.h"

// Which of the stages that cut, join, reorder and batch may stand where, and their options.

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFilter[] = "stage { filter { predicate: \"x > 1\" } }\n";

// S-PLAN-11.
TEST(PlanStagesTest, BehindACutOnlyTakeSkipAndShuffleMayStandBeforeTheBatch) {
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
TEST(PlanStagesTest, UnbatchStandsOnceDirectlyBehindFiltersAndBeforeRandomOps) {
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

// S-CUT-19.
TEST(PlanStagesTest, ShufflesBehindACutAndBucketsHoldAMillionRowsAtMost) {
  const std::string s = kSource;
  const auto shuffle = [](uint64_t rows) {
    return "stage { shuffle { buffer_size: " + std::to_string(rows) + " } }\n";
  };
  const auto buckets = [](const std::string& sizes) {
    return "stage { bucket_by_length { field: \"x\" boundary: 3 batch_size: [" + sizes + "] } }\n";
  };
  constexpr uint64_t kMost = 1 << 20;
  Make(s + shuffle(kMost + 1) + kFilter + shuffle(kMost) + kBatch);
  EXPECT_EQ(ErrorOf(s + kFilter + shuffle(kMost + 1) + kBatch),
            "p:3:19: buffer_size is 1048577 but may be at most 1048576: shuffles behind a filter "
            "or unbatch and buckets hold 1048576 rows together at most, because every batch's "
            "resume token names them");
  EXPECT_THAT(ErrorOf(s + kFilter + shuffle(kMost - 5) + shuffle(6) + kBatch),
              HasSubstr("p:4:19: buffer_size is 6 but may be at most 5:"));
  // Every lane has a slot.
  EXPECT_THAT(ErrorOf("lanes: 4\n" + s + kFilter + shuffle(kMost) + shuffle(1) + kBatch),
              HasSubstr("p:5:19: buffer_size is 4 but may be at most 0:"));
  Make(s + kFilter + shuffle(kMost - 6) + buckets("4, 2"));
  EXPECT_THAT(ErrorOf(s + kFilter + shuffle(kMost - 5) + buckets("4, 2")),
              HasSubstr("p:4:51: batch_size is 2 but may be at most 1:"));
  EXPECT_THAT(ErrorOf(s + buckets("1048576, 1")), HasSubstr("p:2:51: batch_size is 1 but"));
}

// S-PLAN-3.
TEST(PlanStagesTest, ShufflesThatMakeNoSenseAreRefused) {
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
TEST(PlanStagesTest, InterleaveStandsDirectlyAfterItsFiles) {
  const std::string s = kSource;
  const std::string interleave = "stage { interleave { cycle_length: 4 } }\n";
  const Plan plan = Make(s + interleave + kBatch);
  EXPECT_EQ(plan.message().pipeline.stage(1).interleave().block_length(), 1u);
  EXPECT_EQ(ErrorOf(s + "stage { take { count: 1 } }\n" + interleave + kBatch),
            "p:3:1: interleave reads files in turns and must stand directly after a "
            "source of files (tfrecord, text, ...)");
  EXPECT_THAT(ErrorOf("stage { range { count: 9 } }\n" + interleave + kBatch),
              HasSubstr("p:2:1: interleave reads files"));
}

// S-PLAN-12.
TEST(PlanStagesTest, OneBatchStageOfAnyKind) {
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
TEST(PlanStagesTest, LanesDivideTheBatchSizeOfEveryBucket) {
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
TEST(PlanStagesTest, JoinsHoldPipelinesOfSourceAndOrder) {
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
TEST(PlanStagesTest, WhatCannotStandInAnInputIsRefusedAtItsPlace) {
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
TEST(PlanStagesTest, EndlessInputsAreLastInAConcatenateAndAllOfAMix) {
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
TEST(PlanStagesTest, WhatIsPushedCannotBeRewound) {
  const std::string push = "stage { push {} }\n";
  Make(push +
       "stage { take { count: 9 } } stage { skip { count: 2 } } "
       "stage { shard { num_shards: 2 index: 1 } } stage { shuffle { buffer_size: 4 } }" +
       kBatch);
  for (const char* batch :
       {"batch { size: 4 }", "padded_batch { size: 4 }", "ragged_batch { size: 4 }",
        "bucket_by_length { field: \"x\" boundary: 4 batch_size: [2, 2] }"}) {
    Make(push +
         "stage { filter { predicate: \"x > 1\" } } stage { unbatch {} } "
         "stage { shuffle { buffer_size: 4 } } stage { " +
         batch + " }");
  }
  for (const std::string stage : {"repeat {}", "repeat { epochs: 2 }", "global_shuffle {}"}) {
    const std::string op = stage.substr(0, stage.find(' '));
    EXPECT_THAT(ErrorOf(push + "stage { " + stage + " }\n" + kBatch),
                HasSubstr("p:2:1: " + op + " cannot follow push: what is pushed comes once"));
  }
  for (const std::string stage : {"repeat {}", "take { count: 2 }", "skip { count: 2 }"}) {
    const std::string op = stage.substr(0, stage.find(' '));
    EXPECT_THAT(ErrorOf(push + kBatch + "stage { " + stage + " }"),
                HasSubstr("p:3:1: " + op + " of batches cannot follow push"));
  }
}

TEST(PlanStagesTest, OptionsOfOrderStagesAndJoinsAreChecked) {
  EXPECT_EQ(StageError("shuffle {}"), "p:2:9: buffer_size is 0 but must be in [1, 134217728]");
  EXPECT_THAT(StageError("shuffle { buffer_size: 134217729 }"), HasSubstr("p:2:19: buffer_size"));
  EXPECT_THAT(StageError("shard {}"), HasSubstr("p:2:9: num_shards is 0"));
  EXPECT_EQ(StageError("shard { num_shards: 2147483649 }"),
            "p:2:17: num_shards is 2147483649 but must be in [1, 2147483648]");
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

TEST(PlanStagesTest, OptionsOfCutsAndBatchesAreChecked) {
  EXPECT_THAT(StageError("filter {}"), HasSubstr("p:2:9: predicate is empty"));
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

TEST(PlanStagesTest, OptionsOfDecodeRawAndCustomAreChecked) {
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

// S-FINGERPRINT-2.
TEST(PlanStagesTest, FingerprintCoversLanesAndEveryNewOption) {
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
TEST(PlanStagesTest, OneLaneWrittenOutAndPathsOfInputsDoNotCount) {
  EXPECT_EQ(Make(std::string(kSource) + kBatch + "lanes: 1").Fingerprint(),
            Make(std::string(kSource) + kBatch).Fingerprint());
  EXPECT_EQ(Make(Concatenate(Input("stage { tfrecord { files: \"a\" } }")) + kBatch).Fingerprint(),
            Make(Concatenate(Input("stage { tfrecord { files: \"b\" } }")) + kBatch).Fingerprint());
}

}  // namespace
}  // namespace millrace::pipeline
