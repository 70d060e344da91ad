#include <gmock/gmock.h>

#include <algorithm>

#include "tests/pipeline/cut/cut_plans.h"
#include "tests/pipeline/executor/executor_fixture.h"

// Padded and ragged batches without a filter: rows are those of the order, for any number of lanes.
// random_plan_test and random_resume_test take such plans to worlds of all sizes too.

namespace millrace::pipeline {
namespace {

constexpr int kRows = 8;  // rows of TokensPlan's batch
constexpr auto kKinds = {BatchSpec::Kind::kPadded, BatchSpec::Kind::kRagged};

PhysicalPlan ShuffledPlan(BatchSpec::Kind kind) {
  PhysicalPlan plan = TokensPlan(kind);
  plan.order.steps.push_back(Step(OrderStep::Kind::kGlobalShuffle));
  return plan;
}

// Two epochs through a buffer, which mixes them.
PhysicalPlan BufferedPlan(BatchSpec::Kind kind) {
  PhysicalPlan plan = TokensPlan(kind);
  plan.order.steps = {Step(OrderStep::Kind::kRepeat, 2), Step(OrderStep::Kind::kShuffle, 20)};
  return plan;
}

using PlanOfKind = PhysicalPlan (*)(BatchSpec::Kind kind);

// The sums of the digests of all ranks; the tokens of rank 0, which every rank has.
Stream DrainWorld(PlanOfKind plan, BatchSpec::Kind kind, const FakeData& data, int world,
                  const std::string& token = "") {
  Stream sums;
  for (int rank = 0; rank < world; ++rank) {
    OpenOptions options = RankOptions(rank, world);
    options.resume_token = token;
    const Stream stream = Drain(*OpenFake(plan(kind), data, FakeContext(2), options));
    EXPECT_TRUE(stream.end.ok()) << stream.end;
    if (rank == 0) {
      sums = stream;
      continue;
    }
    EXPECT_EQ(stream.tokens, sums.tokens) << "rank " << rank << " of " << world;
    for (size_t i = 0; i < sums.digests.size(); ++i) sums.digests[i] += stream.digests[i];
  }
  return sums;
}

// S-CUT-20, S-RANK-2.
TEST(FreeLanesTest, EveryWorldUpToTheBatchHasTheStreamAndTheTokensOfOneRank) {
  const FakeData data = MakeFakeData(83);
  for (const PlanOfKind plan : {ShuffledPlan, BufferedPlan}) {
    for (const BatchSpec::Kind kind : kKinds) {
      const Stream one = DrainWorld(plan, kind, data, 1);
      ASSERT_GT(one.digests.size(), 3u);
      for (const int world : {2, 3, 5, kRows}) {
        const Stream many = DrainWorld(plan, kind, data, world);
        EXPECT_EQ(many.digests, one.digests) << "world " << world;
        EXPECT_EQ(many.tokens, one.tokens) << "world " << world;
      }
    }
  }
}

// S-CUT-20, S-STATE-10.
TEST(FreeLanesTest, ATokenGoesOnAtAnyWorld) {
  const FakeData data = MakeFakeData(50);
  for (const PlanOfKind plan : {ShuffledPlan, BufferedPlan}) {
    const Stream one = DrainWorld(plan, BatchSpec::Kind::kPadded, data, 1);
    for (size_t i = 0; i < one.tokens.size(); ++i) {
      for (const int world : {1, 3, 4}) {
        const Stream tail = DrainWorld(plan, BatchSpec::Kind::kPadded, data, world, one.tokens[i]);
        const auto behind = static_cast<ptrdiff_t>(i) + 1;
        EXPECT_TRUE(std::equal(tail.digests.begin(), tail.digests.end(),
                               one.digests.begin() + behind, one.digests.end()))
            << "world " << world << " behind batch " << i;
      }
    }
  }
}

// S-CUT-20: records of other ranks' rows are damaged, and this one does not notice.
TEST(FreeLanesTest, ARankLooksAtItsOwnRowsAlone) {
  FakeData data = MakeFakeData(64);
  for (uint64_t record = 0; record < 64; ++record) {
    if (record % kRows >= kRows / 2) data.bad_crc.insert(record);
  }
  const auto drain = [&](int world) {
    return Drain(*OpenFake(TokensPlan(BatchSpec::Kind::kPadded), data, FakeContext(2),
                           RankOptions(0, world)));
  };
  EXPECT_EQ(drain(1).end.code(), absl::StatusCode::kDataLoss);
  const Stream own = drain(2);
  EXPECT_TRUE(own.end.ok()) << own.end;
  EXPECT_EQ(own.digests.size(), 64u / kRows);
}

// S-CUT-20: at most as many ranks as a batch has rows, as without a cut.
TEST(FreeLanesTest, MoreRanksThanRowsAreRefused) {
  const auto opened = TryOpenFake(TokensPlan(BatchSpec::Kind::kPadded), MakeFakeData(10),
                                  FakeContext(1), RankOptions(0, kRows + 1));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::pipeline
