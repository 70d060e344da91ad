#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "pipeline/explain_internal.h"
#include "pipeline/optimizer_internal.h"
#include "tests/pipeline/hashing_ops.h"

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

TEST(ExplainTest, OpenedSourceAddsCountsAndTheRanksRows) {
  const std::string text = TextOf(kPlan, SourceFacts{2, 95, 3 << 20, 1, 4});
  EXPECT_THAT(text, HasSubstr("\nSource\n  shards  2\n  records 95 (3.0 MiB)\n  samples 95\n"
                              "  batches 30\n  rows    [2, 5) of every batch on rank 1 of 4\n"));
}

TEST(ExplainTest, EndlessPlanSaysSo) {
  EXPECT_THAT(TextOf("stage { tfrecord { files: \"a\" } } stage { parse_example { feature { key: "
                     "\"x\" dtype: INT64 } } } stage { batch { size: 4 } } stage { repeat {} }",
                     SourceFacts{1, 9, 100, 0, 1}),
              HasSubstr("  samples 9\n  batches without end\n"));
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

TEST(CountAfterTest, StepsActFromTheSourceOutwards) {
  const auto step = [](Kind kind, uint64_t count) {
    return OrderStep{.kind = kind, .count = count, .stage = "s"};
  };
  EXPECT_EQ(CountAfter(10, {}), 10u);
  EXPECT_EQ(CountAfter(10, {step(Kind::kSkip, 3), step(Kind::kRepeat, 2)}), 14u);
  EXPECT_EQ(CountAfter(10, {step(Kind::kRepeat, 2), step(Kind::kSkip, 3)}), 17u);
  EXPECT_EQ(CountAfter(10, {step(Kind::kRepeat, 0)}), std::nullopt);
  EXPECT_EQ(CountAfter(10, {step(Kind::kRepeat, 0), step(Kind::kTake, 25)}), 25u);
  EXPECT_EQ(CountAfter(10, {step(Kind::kSkip, 99)}), 0u);
  EXPECT_EQ(CountAfter(10, {step(Kind::kTake, 99), step(Kind::kGlobalShuffle, 0)}), 10u);
  EXPECT_EQ(CountAfter(0, {step(Kind::kRepeat, 0)}), 0u);
  EXPECT_EQ(CountAfter(10, {step(Kind::kRepeat, UINT64_MAX)}), UINT64_MAX);
}

}  // namespace
}  // namespace millrace::pipeline
