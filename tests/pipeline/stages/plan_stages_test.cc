#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pipeline/plan/message.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"

// Which of the stages that cut, join, reorder and batch may stand where, and their options.

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;

constexpr char kFilter[] = "stage { filter { predicate: \"x > 1\" } }\n";

// S-PLAN-11.
TEST(PlanStagesTest, BehindACutOnlyTakeSkipAndShuffleMayStandBeforeTheBatch) {
  const std::string head = std::string(kSource) + kFilter;
  Make(head +
       "stage { take { count: 1 } } stage { skip { count: 1 } } stage { shuffle { "
       "buffer_size: 1 } } stage { flip {} }" +
       kBatch + "stage { repeat {} }");
  EXPECT_MESSAGE(ErrorOf(head + "stage { repeat {} }\n" + kBatch));
  for (const char* stage : {"global_shuffle {}", "shard { num_shards: 2 }"}) {
    EXPECT_MESSAGE(ErrorOf(head + "stage { " + stage + " }\n" + kBatch)) << stage;
  }
  EXPECT_MESSAGE(ErrorOf(std::string(kSource) + kBatch + kFilter));
}

// S-PLAN-11.
TEST(PlanStagesTest, UnbatchStandsOnceDirectlyBehindFiltersAndBeforeRandomOps) {
  const std::string s = kSource;
  const std::string u = "stage { unbatch {} }\n";
  Make(s + kFilter + "stage { identity {} }" + u + "stage { take { count: 1 } } stage { flip {} }" +
       kFilter + kBatch);
  EXPECT_MESSAGE(ErrorOf(s + u + u + kBatch));
  EXPECT_MESSAGE(ErrorOf(s + kFilter + "stage { take { count: 1 } }\n" + u + kBatch));
  EXPECT_MESSAGE(ErrorOf(s + "stage { flip {} }\n" + u + kBatch));
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
  EXPECT_MESSAGE(ErrorOf(s + kFilter + shuffle(kMost + 1) + kBatch));
  EXPECT_MESSAGE(ErrorOf(s + kFilter + shuffle(kMost - 5) + shuffle(6) + kBatch));
  // Every lane has a slot.
  EXPECT_MESSAGE(ErrorOf("lanes: 4\n" + s + kFilter + shuffle(kMost) + shuffle(1) + kBatch));
  Make(s + kFilter + shuffle(kMost - 6) + buckets("4, 2"));
  EXPECT_MESSAGE(ErrorOf(s + kFilter + shuffle(kMost - 5) + buckets("4, 2")));
  EXPECT_MESSAGE(ErrorOf(s + buckets("1048576, 1")));
}

// S-PLAN-3.
TEST(PlanStagesTest, ShufflesThatMakeNoSenseAreRefused) {
  const std::string s = kSource;
  const std::string shuffle = "stage { shuffle { buffer_size: 8 } }\n";
  EXPECT_MESSAGE(ErrorOf(s + shuffle + "stage { global_shuffle {} }\n" + kBatch));
  EXPECT_MESSAGE(ErrorOf(s + "stage { repeat {} }\n" + shuffle + kBatch));
  EXPECT_MESSAGE(ErrorOf(s + kBatch + shuffle));
  Make(s + "stage { global_shuffle {} }" + shuffle + "stage { repeat {} }" + kBatch);
}

// S-PLAN-3.
TEST(PlanStagesTest, InterleaveStandsDirectlyAfterItsFiles) {
  const std::string s = kSource;
  const std::string interleave = "stage { interleave { cycle_length: 4 } }\n";
  const Plan plan = Make(s + interleave + kBatch);
  EXPECT_EQ(plan.message().pipeline.stage(1).interleave().block_length(), 1u);
  EXPECT_MESSAGE(ErrorOf(s + "stage { take { count: 1 } }\n" + interleave + kBatch));
  EXPECT_MESSAGE(ErrorOf("stage { range { count: 9 } }\n" + interleave + kBatch));
}

// S-PLAN-12.
TEST(PlanStagesTest, OneBatchStageOfAnyKind) {
  const std::string padded = "stage { padded_batch { size: 4 } }\n";
  for (const std::string& batch :
       {padded, std::string("stage { ragged_batch { size: 4 } }\n"),
        std::string(
            "stage { bucket_by_length { field: \"x\" boundary: 3 batch_size: [4, 2] } }\n")}) {
    Make(kSource + batch + "stage { custom { op: \"mixup\" } }");
    EXPECT_MESSAGE(ErrorOf(kSource + batch + kBatch), "second");
  }
}

// S-PLAN-12.
TEST(PlanStagesTest, LanesDivideTheBatchSizeOfEveryBucket) {
  const std::string s = kSource;
  Make("lanes: 4 " + s + kBatch);
  EXPECT_MESSAGE(ErrorOf(s + kBatch + "lanes: 3"));
  EXPECT_MESSAGE(ErrorOf(s +
                         "stage { bucket_by_length { field: \"x\" boundary: 3 batch_size: [4, 2] "
                         "} } lanes: 4"));
  EXPECT_MESSAGE(ErrorOf(s + kBatch + "lanes: 65537"));
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
  EXPECT_MESSAGE(error(file + " stage { flip {} }"));
  EXPECT_MESSAGE(error(file + kBatch));
  EXPECT_MESSAGE(error(file + kFilter));
  EXPECT_MESSAGE(error("seed: 3"));
  EXPECT_MESSAGE(error("lanes: 3"));
  EXPECT_MESSAGE(error("semantics_version: 1"));
  EXPECT_MESSAGE(error(""));
  EXPECT_MESSAGE(error("stage { take { count: 1 } }"));
  EXPECT_MESSAGE(error("stage { push {} }"));
  EXPECT_MESSAGE(error("stage { range { count: 4 } }"));
  EXPECT_MESSAGE(ErrorOf(Concatenate(Input("stage { name: \"x\" tfrecord { files: \"a\" } }")) +
                         "stage { name: \"x\" flip {} }" + kBatch));
  EXPECT_MESSAGE(error("stage { tfrecord { files: \"\" } }"));
  EXPECT_MESSAGE(error("stage { name: \"x\" }"));
}

// S-PLAN-13.
TEST(PlanStagesTest, EndlessInputsAreLastInAConcatenateAndAllOfAMix) {
  const std::string file = "stage { tfrecord { files: \"a\" } }";
  const std::string endless = file + "stage { repeat {} }";
  const std::string more = std::string("stage { global_shuffle {} }\n") + kBatch;
  EXPECT_MESSAGE(ErrorOf(Concatenate(Input(endless) + Input(file)) + kBatch));
  Make(Concatenate(Input(file) + Input(endless)) + kBatch);
  EXPECT_MESSAGE(ErrorOf(Concatenate(Input(file) + Input(endless)) + more));
  EXPECT_MESSAGE(ErrorOf(Mix(Input(endless) + Input(endless)) + more));
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
    EXPECT_MESSAGE(ErrorOf(push + "stage { " + stage + " }\n" + kBatch));
  }
  for (const std::string stage : {"repeat {}", "take { count: 2 }", "skip { count: 2 }"}) {
    EXPECT_MESSAGE(ErrorOf(push + kBatch + "stage { " + stage + " }"));
  }
}

TEST(PlanStagesTest, OptionsOfOrderStagesAndJoinsAreChecked) {
  EXPECT_MESSAGE(StageError("shuffle {}"));
  EXPECT_MESSAGE(StageError("shuffle { buffer_size: 134217729 }"));
  EXPECT_MESSAGE(StageError("shard {}"));
  EXPECT_MESSAGE(StageError("shard { num_shards: 2147483649 }"));
  EXPECT_MESSAGE(StageError("shard { num_shards: 3 index: 3 }"));
  EXPECT_MESSAGE(StageError("global_shuffle { window: 9 }"));
  EXPECT_MESSAGE(ErrorOf(std::string("stage { range {} }") + kBatch));
  EXPECT_MESSAGE(ErrorOf(Mix("") + kBatch));
  const std::string input = Input("stage { range { count: 4 } }");
  EXPECT_MESSAGE(ErrorOf(Mix(input + "weight: [1, 2]") + kBatch));
  EXPECT_MESSAGE(ErrorOf(Mix(input + "weight: -1") + kBatch));
}

TEST(PlanStagesTest, OptionsOfCutsAndBatchesAreChecked) {
  EXPECT_MESSAGE(StageError("filter {}"));
  EXPECT_MESSAGE(StageError("unbatch { field: [\"a\", \"a\"] }"));
  const auto batch = [](const std::string& stage) {
    return ErrorOf(std::string(kSource) + "stage { " + stage + " }");
  };
  EXPECT_MESSAGE(batch("padded_batch {}"));
  EXPECT_MESSAGE(batch("ragged_batch {}"));
  EXPECT_MESSAGE(batch("padded_batch { size: 1 padding {} }"));
  EXPECT_MESSAGE(
      batch("padded_batch { size: 1 padding { field: \"x\" } padding { field: \"x\" } }"));
  const auto bucket = [&](const std::string& options) {
    return batch("bucket_by_length { " + options + " }");
  };
  EXPECT_MESSAGE(bucket(""));
  EXPECT_MESSAGE(bucket("field: \"x\""));
  EXPECT_MESSAGE(bucket("field: \"x\" boundary: [4, 4] batch_size: [1, 1, 1]"));
  EXPECT_MESSAGE(bucket("field: \"x\" boundary: 0 batch_size: [1, 1]"));
  EXPECT_MESSAGE(bucket("field: \"x\" boundary: [4, 8] batch_size: [1, 1]"));
  EXPECT_MESSAGE(bucket("field: \"x\" boundary: 4 batch_size: [1, 0]"));
}

TEST(PlanStagesTest, OptionsOfDecodeRawAndCustomAreChecked) {
  const Plan plan = Make(std::string(kSource) + "stage { decode_raw { shape: [-1, 2] } }" + kBatch);
  EXPECT_EQ(plan.message().pipeline.stage(1).decode_raw().output(), "record");
  EXPECT_EQ(plan.message().pipeline.stage(1).decode_raw().dtype(), proto::UINT8);
  EXPECT_MESSAGE(StageError("decode_raw { shape: [2, -1] }"));
  EXPECT_MESSAGE(StageError("decode_raw { shape: [-1, -1] }"));
  EXPECT_MESSAGE(StageError("decode_raw { shape: -2 }"));
  EXPECT_MESSAGE(StageError("decode_raw { dtype: BYTES }"));
  EXPECT_EQ(Make(std::string(kSource) + "stage { custom { op: \"x\" } }" + kBatch)
                .message()
                .pipeline.stage(1)
                .custom()
                .version(),
            1u);
  EXPECT_MESSAGE(StageError("custom {}"));
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
