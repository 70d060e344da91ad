#include <gmock/gmock.h>

#include "tests/pipeline/random/plan_worlds.h"
#include "tests/pipeline/source/push_fixture.h"

// Drawn plans whose records are pushed, against the same records in files.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

// A plan without what cannot follow push.
PhysicalPlan Pushable(const OpenablePlan& plan) {
  PhysicalPlan physical = plan.Physical();
  std::erase_if(physical.order.steps, [](const OrderStep& step) {
    return step.kind == Kind::kRepeat || step.kind == Kind::kGlobalShuffle ||
           step.kind == Kind::kInterleave;
  });
  physical.batch_order.clear();
  return physical;
}

bool ReadsOneSetOfFiles(const OpenablePlan& plan) {
  return plan.made().files.size() == 1 && plan.made().ranges.empty() &&
         plan.Physical().order.root == OrderPlan::Root::kSource && !plan.Physical().zip.has_value();
}

struct Seen {
  std::vector<uint64_t> digests;
  std::vector<bool> ends_epoch;
  absl::Status end;
};

Seen DrainAll(Pipeline& pipeline) {
  Seen seen;
  while (true) {
    auto batch = pipeline.Next();
    seen.end = batch.status();
    if (!batch.ok() || !batch->has_value()) return seen;
    StreamDigest digest;
    digest.Add(**batch);
    seen.digests.push_back(digest.value());
    seen.ends_epoch.push_back((*batch)->ends_epoch());
  }
}

// What rank `rank` of `world` makes of pushed records.
Seen DrainPushed(const OpenablePlan& plan, int rank, int world, std::mt19937_64& random) {
  const auto context = FakeContext(1 + static_cast<int>(random() % 4));
  const uint64_t limits[] = {0, 1024, 100'000};
  OpenOptions options = OfRank(rank, world);
  options.push = MakePush(limits[random() % 3]);
  options.prefetch_batches = 1 + static_cast<int>(random() % 3);
  const auto pipeline = OpenPushed(Pushable(plan), context, options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  if (!pipeline.ok()) return {};
  const Feeder feeder(options.push, plan.made().files[0], static_cast<unsigned>(random() % 5));
  Seen seen = DrainAll(**pipeline);
  (*pipeline)->Cancel();  // for a feeder that a take left behind
  return seen;
}

void Check(const OpenablePlan& plan, std::mt19937_64& random) {
  PhysicalPlan physical = Pushable(plan);
  const bool has_cut = physical.cut.has_value();
  const uint64_t limit = MostRanks(physical, /*endless=*/false);
  OpenedSources sources = plan.Sources(physical);
  const auto opened = OpenPhysical(std::move(physical), std::move(sources), FakeContext(2), {});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Seen expected = DrainAll(**opened);
  ASSERT_TRUE(expected.end.ok()) << expected.end;
  const Seen alone = DrainPushed(plan, 0, 1, random);
  EXPECT_TRUE(alone.end.ok()) << alone.end;
  EXPECT_EQ(alone.digests, expected.digests);
  if (has_cut) {
    EXPECT_EQ(alone.ends_epoch, expected.ends_epoch);
  }
  const int world = 2 + static_cast<int>(random() % 3);
  if (static_cast<uint64_t>(world) > limit) return;
  std::vector<uint64_t> sums(expected.digests.size());
  for (int rank = 0; rank < world; ++rank) {
    const Seen seen = DrainPushed(plan, rank, world, random);
    ASSERT_EQ(seen.digests.size(), sums.size()) << "rank " << rank << " of " << world;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += seen.digests[i];
  }
  EXPECT_EQ(sums, expected.digests) << "world " << world;
}

// S-ORDER-22, S-ORDER-23, S-PLAN-14.
TEST(RandomPushTest, PushedRecordsMakeTheStreamOfTheSameRecordsInFiles) {
  const auto [first, end] = SeedsFromEnvironment(0, 150);
  uint64_t checked = 0;
  for (uint64_t seed = first; seed < end && !testing::Test::HasFailure(); ++seed) {
    const OpenablePlan plan(seed);
    if (!ReadsOneSetOfFiles(plan)) continue;
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     absl::StrCat("seed ", seed, "\n", plan.made().text));
    std::mt19937_64 random(seed);
    Check(plan, random);
    ++checked;
  }
  EXPECT_GT(checked, (end - first) / 10);
}

}  // namespace
}  // namespace millrace::pipeline
