#include "pipeline/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "pipeline/optimize/optimizer.h"
#include "tests/pipeline/executor/hashing_ops.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = OrderStep::Kind;

constexpr char kPlan[] =
    "name: \"t\" seed: 9 stage { tfrecord { files: \"a-*\" } } stage { name: \"mix\" "
    "global_shuffle {} }"
    "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES } feature { key: "
    "\"label\" "
    "dtype: INT64 } } } stage { decode_image {} } stage { random_resized_crop { height: 4 width: 5 "
    "} }"
    "stage { batch { size: 10 } } stage { repeat { epochs: 3 } } stage { prefetch { batches: 3 } }";

std::string TextOf(const std::string& text, const std::optional<SourceFacts>& facts) {
  const auto plan = Plan::FromText(text, "p");
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto physical = MakePhysicalPlan(*plan, {}, MakeHashingOp);
  EXPECT_TRUE(physical.ok()) << physical.status();
  return ExplainText(*plan, *physical, facts);
}

TEST(ExplainTest, ShowsThePlanTheRulesAndWhatRuns) {
  const std::string text = TextOf(kPlan, std::nullopt);
  for (const char* part :
       {"Logical plan \"t\"  fingerprint ", ", seed 9, semantics 1\n",
        "   1  tfrecord                files: \"a-*\" compression: \"auto\"",
        "   2  mix (global_shuffle)\n", "\nRules\n",
        "  decode_region: decode_image decodes only what random_resized_crop keeps\n",
        "  map_into_batch: image stored by random_resized_crop\n",
        "  source  a-* (compression auto, CRC checked)\n", "  order   mix: keyed permutation, key ",
        "  ops     parse_example: record -> image/encoded: bytes[?], label: int64[]  "
        "[parse_example]\n",
        "image/encoded -> image: uint8[4, 5, 3]  [random_resized_crop]\n",
        "            stored into the batch: image\n",
        "  batch   10 rows of 68 B = 680 B; a last batch that is not full is padded and masked\n",
        "  batches repeat: 3 epochs\n", "  ring    3 batches ahead\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("\nSource\n")));
}

// S-CUT-20: not of records that are pushed.
TEST(ExplainTest, LanesAreFreeWhereEveryRecordIsARow) {
  const std::string behind =
      " stage { decode_raw { dtype: INT64 shape: -1 } } stage { padded_batch { size: 4 } }";
  const std::string free = TextOf("lanes: 2 stage { tfrecord { files: \"a-*\" } }" + behind,
                                  SourceFacts{{{2, 95, 3 << 20}}, 0, 4});
  EXPECT_THAT(free, HasSubstr("2, or as many as the world needs: at most 4 ranks\n"));
  EXPECT_THAT(free, HasSubstr("  rows    [0, 1) of every batch on rank 0 of 4\n"));
  const std::string pushed =
      TextOf("lanes: 2 stage { push {} }" + behind, SourceFacts{{{0, 0, 0, false}}, 1, 2});
  EXPECT_THAT(pushed, HasSubstr("2, and more ranks divide the rows of a batch: at most 4 ranks\n"));
  EXPECT_THAT(pushed, HasSubstr("  lanes   [1, 2) of every batch on rank 1 of 2\n"));
}

// S-CUT-21, S-CUT-22.
TEST(ExplainTest, BucketsSayWhatMoreRanksThanLanesDoAndThatLengthsAreKept) {
  const std::string text = TextOf(
      "stage { tfrecord { files: \"a-*\" } } stage { parse_example { feature { key: "
      "\"tokens\" dtype: INT64 shape: [-1] } } } stage { bucket_by_length { field: "
      "\"tokens\" boundary: [8] batch_size: [8, 4] keep_lengths: true } }",
      SourceFacts{{{2, 95, 3 << 20}}, 1, 3});
  EXPECT_THAT(text, HasSubstr("  lengths kept beside the index, so that pass 1 reads no record\n"
                              "  lanes   1, and more ranks divide the rows of a batch: at most 4 "
                              "ranks\n"));
  EXPECT_THAT(text, HasSubstr("  rows    1/3 of every batch on rank 1 of 3\n"));
}

TEST(ExplainTest, OpenedSourceAddsCountsAndTheRanksRows) {
  const std::string text = TextOf(kPlan, SourceFacts{{{2, 95, 3 << 20}}, 1, 4});
  EXPECT_THAT(text, HasSubstr("\nSource\n  shards  2\n  records 95 (3.0 MiB)\n  samples 95\n"
                              "  batches 30\n  rows    [2, 5) of every batch on rank 1 of 4\n"));
}

// 10,000 records of 1 MiB in spans of 4 MiB, of which 64 MiB are kept, or 128 MiB for windows.
SourceFacts Compressed() {
  SourceFacts facts{{{2, 10'000, uint64_t{10'000} << 20}}, 0, 1};
  facts.sources[0].spans = readers::SpanFacts{.bytes = facts.sources[0].bytes,
                                              .span_bytes = 4 << 20,
                                              .kept_bytes = 64 << 20,
                                              .most_kept_bytes = 128 << 20};
  return facts;
}

std::string InflateOf(const std::string& stage, const SourceFacts& facts = Compressed()) {
  const auto plan = Plan::FromText("stage { tfrecord { files: \"a\" } } " + stage +
                                       " stage { parse_example { feature { key: \"x\" dtype: INT64 "
                                       "} } } stage { batch { size: 4 } }",
                                   "p");
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto physical = MakePhysicalPlan(*plan, {}, MakeHashingOp);
  EXPECT_TRUE(physical.ok()) << physical.status();
  return InflateText(*physical, facts);
}

TEST(ExplainTest, ShufflesOverCompressedShardsSayWhatTheyInflate) {
  EXPECT_EQ(InflateOf(""), "") << "in order each byte is inflated once";
  EXPECT_EQ(
      InflateOf("stage { name: \"mix\" global_shuffle {} }"),
      "  inflate 5.0 bytes for each that is read: spans of 4.0 MiB, 64.0 MiB of them are kept  "
      "[mix]\n          global_shuffle { block_bytes: 4194304 }: 2.0\n");
  EXPECT_EQ(InflateOf("stage { shuffle { buffer_size: 50 } }"), "") << "its window is kept";
  EXPECT_THAT(InflateOf("stage { name: \"near\" shuffle { buffer_size: 640 } }"),
              HasSubstr("inflate 4.5 bytes for each that is read"));
  EXPECT_THAT(
      InflateOf("stage { name: \"files\" interleave { cycle_length: 32 block_length: 1 } }"),
      HasSubstr("inflate 2.5 bytes"));
  SourceFacts roomy = Compressed();
  roomy.sources[0].spans->kept_bytes = uint64_t{1} << 30;
  EXPECT_THAT(InflateOf("stage { global_shuffle { block_bytes: 33554432 } }", roomy),
              HasSubstr("inflate 1.1 bytes"));
  roomy.sources[0].spans->kept_bytes = uint64_t{1} << 40;
  EXPECT_EQ(InflateOf("stage { global_shuffle {} }", roomy), "") << "all is kept";
  SourceFacts plain = Compressed();
  plain.sources[0].spans.reset();
  EXPECT_EQ(InflateOf("stage { global_shuffle {} }", plain), "");
}

TEST(ExplainTest, EndlessPlanSaysSo) {
  EXPECT_THAT(TextOf("stage { tfrecord { files: \"a\" } } stage { parse_example { feature { key: "
                     "\"x\" dtype: INT64 } } } stage { batch { size: 4 } } stage { repeat {} }",
                     SourceFacts{{{1, 9, 100}}, 0, 1}),
              HasSubstr("  samples 9\n  batches without end\n"));
}

TEST(ExplainTest, IndexesOfDaliAreNamed) {
  EXPECT_THAT(
      TextOf("stage { tfrecord { files: \"a-*\" dali_index: [\"b\", \"c-*\"] } } stage { "
             "parse_example { feature { key: \"x\" dtype: INT64 } } } stage { batch { size: 4 } "
             "}",
             std::nullopt),
      HasSubstr("a-* (compression auto, CRC checked, those that are in b, c-*)"));
}

TEST(ExplainTest, OnlyTheFeatureListsThatDecideAreLookedAtFirst) {
  const std::string text = TextOf(
      "stage { tfrecord { files: \"a\" } } stage { parse_sequence_example { "
      "feature { key: \"label\" dtype: INT64 } "
      "feature_list { key: \"rgb\" dtype: UINT8 shape: 1024 } "
      "feature_list { key: \"ids\" dtype: INT64 } } } "
      "stage { filter { predicate: \"len(ids) > 3\" } } stage { padded_batch { size: 4 } }",
      std::nullopt);
  EXPECT_THAT(text, HasSubstr("examine: filter \"filter\" needs parse_sequence_example(ids)"));
  EXPECT_THAT(text, HasSubstr("record -> label: int64[], rgb: uint8[?, 1024], ids: int64[?]"));
}

TEST(ExplainTest, EveryExampleIsExplained) {
  const char* root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  const auto plan =
      Plan::FromFile(std::string(root) + "/examples/imagenet/train.pbtxt", {{"DATA", "/d"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto physical = MakePhysicalPlan(*plan, {}, MakeHashingOp);
  ASSERT_TRUE(physical.ok()) << physical.status();
  EXPECT_THAT(ExplainText(*plan, *physical, std::nullopt),
              HasSubstr("batch   256 rows of 588.0 KiB = 147.0 MiB"));
}

// Everything that a plan can have, once.
constexpr char kWhole[] = R"(
lanes: 2
stage { mix {
  input { stage { tfrecord { files: "a-*" } }
          stage { interleave { cycle_length: 4 block_length: 16 shuffle_files: true } } }
  input { stage { concatenate {
            input { stage { name: "b" tfrecord { files: "b" compression: "gzip" skip_crc: true } } }
            input { stage { name: "c" tfrecord { files: "c" } } stage { take { count: 7 } } } } }
          stage { shard { num_shards: 3 index: 1 } } }
  weight: [0.5, 1] } }
stage { shuffle { buffer_size: 65536 } }
stage { parse_example {
  feature { key: "image/encoded" dtype: BYTES }
  feature { key: "label" dtype: INT64 }
  feature { key: "tokens" dtype: INT64 shape: [-1] } } }
stage { name: "keep" filter { predicate: "label > 1" } }
stage { name: "first" take { count: 1000 } }
stage { name: "near" shuffle { buffer_size: 2048 } }
stage { decode_image {} }
stage { random_resized_crop { height: 4 width: 5 } }
stage { bucket_by_length { field: "tokens" boundary: [8, 16] batch_size: [8, 4, 2]
                           padding { field: "tokens" int_value: -1 } } }
stage { repeat { epochs: 3 } }
stage { name: "mixup" custom { op: "my_mixup" version: 2 } }
)";

TEST(ExplainTest, ShowsEveryKindOfStage) {
  const std::string text = TextOf(kWhole, std::nullopt);
  for (const char* part :
       {", lanes 2\n",
        "   1  mix                     weight: [0.5, 1]\n"
        "      1.1.1  tfrecord                files: \"a-*\"",
        "      1.2.1.1.1  b (tfrecord)            files: \"b\"",
        "\n  examine: filter \"keep\" needs parse_example(label)\n"
        "  examine: extents of tokens needs parse_example(tokens)\n",
        "  source  a-* (compression auto, CRC checked)  [tfrecord]\n"
        "          b (compression gzip, CRC not checked)  [b]\n"
        "          c (compression auto, CRC checked)  [c]\n"
        "  order   mix: 2 inputs, shares 0.5 : 1, key ",
        "            input 1: tfrecord\n"
        "              interleave: 4 files at once, 16 records of each in turn, files shuffled\n"
        "            input 2\n"
        "              concatenate: 2 inputs, one after the other\n"
        "                input 1: b\n"
        "                input 2: c\n"
        "                  take: the first 7\n"
        "              shard: elements 1, 1 + 3, ...\n"
        "          shuffle: buffer 65,536 ids, no payload, key ",
        "  pass 1  parse_example: record -> label: int64[], tokens: int64[?]  [parse_example]\n"
        "          filter: label > 1  [keep]\n"
        "          extents of tokens\n"
        "  settle  first: the first 1000 behind 1 filter\n"
        "          near: buffer 2,048 rows over all lanes behind 1 filter, no payload, key ",
        "  lanes   2, and more ranks divide the rows of a batch: at most 2 ranks\n"
        "  pass 2  parse_example: record -> ",
        "  batch   by length of tokens: below 8 8 rows, below 16 4 rows, else 2 rows; padded to "
        "the "
        "longest; a last batch that is not full is padded and masked\n",
        "            tokens is padded with -1\n  batches repeat: 3 epochs\n"
        "  custom  my_mixup version 2 on whole batches  [mixup]\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ExplainTest, CountsBehindCutsAreBounds) {
  const SourceFacts facts{{{2, 90, 3 << 20}, {1, 10, 100}, {1, 100, 100}}, 1, 2};
  const std::string text = TextOf(kWhole, facts);
  EXPECT_THAT(text, HasSubstr("  shards  4\n  records 200 (3.0 MiB)\n"
                              "            90 in 2 shards (3.0 MiB)  [tfrecord]\n"));
  // 90 + (10 + 7 - 1) / 3 rounded up, if the mix and the filter leave nothing out.
  EXPECT_THAT(text, HasSubstr("  samples at most 96\n  batches not known before they are looked "
                              "at\n  lanes   [1, 2) of every batch on rank 1 of 2\n"));
}

TEST(ExplainTest, BlocksOfAGlobalShuffleArePrinted) {
  const std::string head = "stage { tfrecord { files: \"a\" } } stage { global_shuffle { ";
  const std::string tail =
      " } } stage { parse_example { feature { key: \"x\" dtype: INT64 } } } stage { batch { size: "
      "4 } }";
  EXPECT_THAT(TextOf(head + "block_bytes: 8388608" + tail, std::nullopt),
              HasSubstr("blocks of about 8.0 MiB, mixed within windows of 16 blocks, key "));
  EXPECT_THAT(TextOf(head + "block_bytes: 1024 window: 5000" + tail, std::nullopt),
              HasSubstr("mixed within windows of 5,000 records, key "));
}

TEST(ExplainTest, APaddingIsPrintedToItsLastDigit) {
  const std::string text = TextOf(
      "stage { tfrecord { files: \"a\" } } stage { parse_example {"
      "  feature { key: \"ids\" dtype: INT64 shape: -1 }"
      "  feature { key: \"whole\" dtype: FLOAT32 shape: -1 }"
      "  feature { key: \"part\" dtype: FLOAT32 shape: -1 } } } stage { padded_batch { size: 4"
      "  padding { field: \"ids\" int_value: -9007199254740993 }"
      "  padding { field: \"whole\" int_value: 1234567 }"
      "  padding { field: \"part\" float_value: 0.12345678 } } }",
      std::nullopt);
  EXPECT_THAT(text, HasSubstr(" ids is padded with -9007199254740993\n"));
  EXPECT_THAT(text, HasSubstr(" whole is padded with 1234567\n"));
  EXPECT_THAT(text, HasSubstr(" part is padded with 0.12345678\n"));
}

TEST(ExplainTest, PushedAndCountedSourcesAreNamed) {
  const std::string tail = "stage { padded_batch { size: 4 } }";
  const std::string pushed =
      TextOf("stage { push {} } " + tail, SourceFacts{{{0, 0, 0, false}}, 0, 1});
  EXPECT_THAT(pushed, HasSubstr("  source  records that the host program pushes\n"));
  EXPECT_THAT(pushed, HasSubstr("  records as many as are pushed\n  samples not known before"));
  EXPECT_THAT(pushed, HasSubstr("  batch   4 rows, padded to the largest; "));
  EXPECT_THAT(TextOf("stage { range { count: 9 } } " + tail, std::nullopt),
              HasSubstr("  source  the numbers from 0 to 8\n"));
}

TEST(CountAfterTest, StepsActFromTheSourceOutwards) {
  const auto step = [](Kind kind, uint64_t count, uint64_t second = 0) {
    return OrderStep{.kind = kind, .count = count, .second = second, .stage = "s"};
  };
  const auto after = [](std::optional<uint64_t> count, const std::vector<OrderStep>& steps) {
    return CountAfter({count}, steps).count;
  };
  EXPECT_EQ(after(10, {}), 10u);
  EXPECT_EQ(after(10, {step(Kind::kSkip, 3), step(Kind::kRepeat, 2)}), 14u);
  EXPECT_EQ(after(10, {step(Kind::kRepeat, 2), step(Kind::kSkip, 3)}), 17u);
  EXPECT_EQ(after(10, {step(Kind::kRepeat, 0)}), std::nullopt);
  EXPECT_EQ(after(10, {step(Kind::kRepeat, 0), step(Kind::kTake, 25)}), 25u);
  EXPECT_EQ(after(10, {step(Kind::kSkip, 99)}), 0u);
  EXPECT_EQ(after(10, {step(Kind::kTake, 99), step(Kind::kGlobalShuffle, 0)}), 10u);
  EXPECT_EQ(after(0, {step(Kind::kRepeat, 0)}), 0u);
  EXPECT_EQ(after(10, {step(Kind::kRepeat, UINT64_MAX)}), UINT64_MAX);
  EXPECT_EQ(after(10, {step(Kind::kShard, 4, 1)}), 3u);
  EXPECT_EQ(after(10, {step(Kind::kShard, 4, 2)}), 2u);
  EXPECT_EQ(after(2, {step(Kind::kShard, 4, 2)}), 0u);
  EXPECT_EQ(after(std::nullopt, {step(Kind::kShard, 4, 2)}), std::nullopt);
}

}  // namespace
}  // namespace millrace::pipeline
