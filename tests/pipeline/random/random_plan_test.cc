#include "tests/pipeline/random/random_plan.h"

#include "tests/pipeline/random/plan_model.h"
#include "tests/pipeline/random/plan_worlds.h"

// Plans that nobody thought of. Each is run in many ways that must not matter, and against a model
// that is made of plain vectors. MILLRACE_RANDOM_PLANS says how many, MILLRACE_RANDOM_SEED from
// which on. The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxBatches = 16;

// The reference: one rank, two threads. How many batches may be asked for is what the model says of
// an endless input, of which a lane may get no row for ever.
struct Reference {
  ModelStream model;
  SeenStream seen;
  size_t max_batches = kMaxBatches;
};

// False for the few plans that cannot be opened (an order without elements is repeated for ever).
bool MakeReference(const OpenablePlan& plan, const std::shared_ptr<Context>& context,
                   Reference& reference) {
  const auto opened = plan.Open(context);
  if (!opened.ok()) {
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument) << opened.status();
    return false;
  }
  const PhysicalPlan physical = plan.Physical();
  if (!plan.made().in_blocks) {
    const std::vector<OrderSource> facts = plan.Facts(physical);
    reference.model = PlanModel(plan.made(), physical, facts).Stream(kMaxBatches);
    if (!reference.model.ends) reference.max_batches = reference.model.batches.size();
  } else if (plan.made().endless && plan.made().has_cut) {
    return false;
  }
  DrainRank(plan.made(), **opened, 0, reference.max_batches, 0, reference.seen);
  EXPECT_TRUE(reference.seen.end.ok()) << reference.seen.end;
  return true;
}

// Calls `check(plan, context, reference)` for each plan; the message of a failure has its text.
template <typename Check>
void ForEachPlan(uint64_t plans, const Check& check) {
  const auto context = FakeContext(2);
  uint64_t opened = 0, batches = 0;
  const auto [first, end] = SeedsFromEnvironment(0, plans);
  for (uint64_t seed = first; seed < end; ++seed) {
    const OpenablePlan plan(seed);
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     absl::StrCat("seed ", seed, "\n", plan.made().text));
    Reference reference;
    if (!MakeReference(plan, context, reference)) continue;
    ++opened;
    batches += reference.seen.batches.size();
    check(plan, context, reference, seed);
    if (testing::Test::HasFailure()) return;
  }
  if (end - first < 20) return;
  EXPECT_GT(opened, (end - first) * 8 / 10);
  EXPECT_GT(batches, 2 * opened);
}

TEST(RandomPlanTest, EveryStageIsDrawnNowAndThen) {
  std::vector<RandomPlan> plans;
  for (uint64_t seed = 0; seed < 1000; ++seed) plans.push_back(RandomPlanMaker(seed).Make());
  for (const std::string op :
       {"tfrecord",     "range",        "concatenate",      "mix",     "zip",
        "interleave",   "shuffle",      "global_shuffle",   "shard",   "repeat",
        "take",         "skip",         "parse_example",    "filter",  "unbatch",
        "decode_raw",   "flip",         "normalize",        "one_hot", "batch",
        "padded_batch", "ragged_batch", "bucket_by_length", "prefetch"}) {
    int drawn = 0, with_cut = 0, behind_cut = 0;
    for (const RandomPlan& plan : plans) {
      const size_t at = plan.text.rfind(absl::StrCat("\" ", op, " {"));
      if (at == std::string::npos) continue;
      ++drawn;
      with_cut += plan.has_cut ? 1 : 0;
      const size_t cut = std::min(plan.text.find(" filter {"), plan.text.find(" unbatch {"));
      behind_cut += cut < at ? 1 : 0;
    }
    EXPECT_GT(drawn, 30) << op;
    EXPECT_GT(with_cut, 15) << op;
    if (op == "shuffle" || op == "take" || op == "skip" || op == "filter") {
      EXPECT_GT(behind_cut, 60) << op;
    }
  }
}

// S-ORDER-1 to S-ORDER-14, S-BATCH-1, S-BATCH-2, S-BATCH-10, S-BATCH-11, S-CUT-1, S-CUT-5, S-CUT-10
// to S-CUT-16.
TEST(RandomPlanTest, BatchesHoldTheRowsThatAPlainModelGives) {
  ForEachPlan(100, [](const OpenablePlan& plan, const auto&, const Reference& reference, uint64_t) {
    if (plan.made().in_blocks) return;
    const ModelStream& model = reference.model;
    const SeenStream& seen = reference.seen;
    ASSERT_EQ(seen.batches.size(), model.batches.size());
    if (seen.batches.size() < kMaxBatches) {
      EXPECT_EQ(seen.ended, model.ends);
    }
    for (size_t b = 0; b < model.batches.size(); ++b) {
      ASSERT_EQ(seen.batches[b].rows, model.batches[b].rows) << "batch " << b;
      if (!plan.made().has_cut) continue;
      EXPECT_EQ(seen.batches[b].epoch, model.batches[b].epoch) << "batch " << b;
      EXPECT_EQ(seen.batches[b].ends_epoch, model.batches[b].ends_epoch) << "batch " << b;
    }
  });
}

// S-RANK-1, S-RANK-2, S-CUT-11, S-CUT-20, S-CUT-21.
TEST(RandomPlanTest, RanksTogetherAreTheStreamOfOneBitForBit) {
  ForEachPlan(
      60, [](const OpenablePlan& plan, const auto& context, const Reference& reference, uint64_t) {
        const PhysicalPlan physical = plan.Physical();
        const uint64_t limit = MostRanks(physical, plan.made().endless);
        for (const int world : {2, 3, 4, 8}) {
          if (static_cast<uint64_t>(world) > limit) continue;
          const SeenStream seen = RunWorld(plan, context, world, reference.max_batches);
          ASSERT_EQ(seen.digests(), reference.seen.digests()) << "world " << world;
          EXPECT_EQ(seen.ended, reference.seen.ended);
          for (size_t b = 0; b < seen.batches.size(); ++b) {
            ASSERT_EQ(seen.batches[b].rows, reference.seen.batches[b].rows) << "world " << world;
          }
        }
      });
}

// S-CUT-11.
TEST(RandomPlanTest, MoreRanksThanLanesOfAnEndlessCutAreRefusedWithTheAdvice) {
  ForEachPlan(100, [](const OpenablePlan& plan, const auto& context, const Reference&, uint64_t) {
    for (const int world : {2, 3, 4, 8}) {
      const PhysicalPlan physical = plan.Physical();
      const auto ranks = static_cast<uint64_t>(world);
      if (ranks <= MostRanks(physical, plan.made().endless)) continue;
      if (ranks > SmallestBatch(physical)) continue;
      const auto opened = plan.Open(context, OfRank(world - 1, world));
      EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(opened.status().message()),
                  testing::HasSubstr(absl::StrCat("set lanes: ", world)));
    }
  });
}

// S-RANDOM-2.
TEST(RandomPlanTest, BitsAreTheSameForThreadsRingRunsBudgetAndRules) {
  ForEachPlan(30,
              [](const OpenablePlan& plan, const auto&, const Reference& reference, uint64_t seed) {
                std::mt19937_64 random(seed);
                for (const int threads : {1, 2, 8, 32}) {
                  const int64_t budgets[] = {1, 3000, 60'000, int64_t{1} << 30};
                  const auto context = FakeContext(threads, budgets[random() % 4]);
                  OpenOptions options;
                  options.prefetch_batches = 1 + static_cast<int>(random() % 4);
                  options.cpu_budget = random() % 3 == 0 ? 1 : 0;
                  OptimizerOptions rules;
                  rules.project = random() % 2 == 0;
                  rules.decode_region = random() % 2 == 0;
                  rules.map_into_batch = random() % 2 == 0;
                  rules.fuse_image = random() % 2 == 0;
                  const int64_t rows_per_run[] = {0, 1, 7, 1024};
                  const int64_t rows = rows_per_run[random() % 4];
                  const auto pipeline = plan.Open(plan.Physical(rules), context, options, rows);
                  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
                  SeenStream seen;
                  DrainRank(plan.made(), **pipeline, 0, reference.max_batches, 0, seen);
                  EXPECT_TRUE(seen.end.ok()) << seen.end;
                  ASSERT_EQ(seen.digests(), reference.seen.digests())
                      << threads << " threads, ring " << options.prefetch_batches << ", budget "
                      << context->memory_budget()->limit_bytes() << ", runs of " << rows;
                  for (size_t b = 0; b < seen.batches.size(); ++b) {
                    ASSERT_EQ(seen.batches[b].tokens, reference.seen.batches[b].tokens);
                  }
                }
              });
}

}  // namespace
}  // namespace millrace::pipeline
