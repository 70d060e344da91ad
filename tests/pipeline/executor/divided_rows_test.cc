#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tests/messages.h"
#include "tests/pipeline/cut/cut_plans.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/sanitized.h"

// More ranks than lanes behind a cut: they divide the rows of each batch (S-CUT-21).
// random_plan_test, random_resume_test and random_push_test take drawn plans there too, and
// settler_test every kind of cut against a plain one.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

PhysicalPlan BucketPlan(uint64_t lanes = 1, bool drop_remainder = false) {
  PhysicalPlan plan = TokensPlan(BatchSpec::Kind::kBucket, lanes);
  plan.order.steps.push_back(Step(Kind::kGlobalShuffle));
  plan.batch_order = {Step(Kind::kRepeat, 2), Step(Kind::kSkip, 1)};
  plan.batch.drop_remainder = drop_remainder;
  return plan;
}

// A filter, then skip, shuffle and take of what is left, twice.
PhysicalPlan LongPlan() {
  PhysicalPlan plan = ShuffledCutPlan(8, 2);
  const auto step = [](SettleStep::Kind kind, uint64_t count) {
    return SettleStep{.kind = kind, .count = count, .after_filters = 1, .key = 0, .stage = "step"};
  };
  plan.cut->settle.insert(plan.cut->settle.begin(), step(SettleStep::Kind::kSkip, 3));
  plan.cut->settle.push_back(step(SettleStep::Kind::kTake, 35));
  return plan;
}

std::vector<NamedPlan> Plans() {
  return {{"bucket", [] { return BucketPlan(); }},
          {"two lanes of buckets", [] { return BucketPlan(2); }},
          {"buckets without remainder", [] { return BucketPlan(1, true); }},
          {"filter", [] { return FilterPlan(8); }},
          {"skip, shuffle, take", LongPlan},
          {"unbatch", [] { return UnbatchPlan(2); }}};
}

// The sums of the digests of all ranks; the tokens of rank 0, which every rank has.
Stream DrainWorld(const NamedPlan& plan, const FakeData& data, int world,
                  const std::string& token = "", size_t max_batches = 1000) {
  Stream sums;
  for (int rank = 0; rank < world; ++rank) {
    OpenOptions options = RankOptions(rank, world);
    options.resume_token = token;
    const Stream stream = Drain(*OpenFake(plan.make(), data, FakeContext(2), options), max_batches);
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

void ExpectTail(const Stream& tail, const Stream& whole, size_t behind) {
  const auto from = static_cast<ptrdiff_t>(behind) + 1;
  EXPECT_TRUE(std::equal(tail.digests.begin(), tail.digests.end(), whole.digests.begin() + from,
                         whole.digests.end()));
  EXPECT_TRUE(std::equal(tail.tokens.begin(), tail.tokens.end(), whole.tokens.begin() + from,
                         whole.tokens.end()));
}

// S-RANK-2.
TEST(DividedRowsTest, EveryWorldUpToTheSmallestBatchHasTheStreamAndTheTokensOfOneRank) {
  const FakeData data = MakeFakeData(83);
  for (const NamedPlan& plan : Plans()) {
    const Stream one = DrainWorld(plan, data, 1);
    ASSERT_GT(one.digests.size(), 3u) << plan.name;
    for (const int world : {2, 3, 5, 8}) {
      const Stream many = DrainWorld(plan, data, world);
      EXPECT_EQ(many.digests, one.digests) << plan.name << ", world " << world;
      EXPECT_EQ(many.tokens, one.tokens) << plan.name << ", world " << world;
    }
  }
}

// S-STATE-10: from one rank to many, from many to others and back.
TEST(DividedRowsTest, ATokenGoesOnAtAnyWorld) {
  const FakeData data = MakeFakeData(60);
  for (const NamedPlan& plan : Plans()) {
    SCOPED_TRACE(plan.name);
    const Stream one = DrainWorld(plan, data, 1);
    for (const int from : {1, 5}) {
      const Stream many = from == 1 ? one : DrainWorld(plan, data, from);
      for (size_t i = 0; i < many.tokens.size(); i += kSanitized ? 3 : 1) {
        for (const int world : {1, 4, 7}) {
          if (TakesFewSettings() && world != std::array{1, 4, 7}[i / 3 % 3]) continue;
          SCOPED_TRACE(testing::Message() << "batch " << i << ", " << from << " to " << world);
          ExpectTail(DrainWorld(plan, data, world, many.tokens[i]), one, i);
        }
      }
    }
  }
}

// Buckets know every batch whole without an end too, and a take behind a filter.
TEST(DividedRowsTest, AnInputWithoutEndRunsOnAnyWorldWhereAllLanesAreSettled) {
  const FakeData data = MakeFakeData(40);
  const NamedPlan buckets = {"bucket", [] {
                               PhysicalPlan plan = TokensPlan(BatchSpec::Kind::kBucket);
                               plan.order.steps.push_back(Step(Kind::kRepeat));
                               return plan;
                             }};
  const NamedPlan take = {"take", [] {
                            PhysicalPlan plan = FilterPlan(8, 1, {Step(Kind::kRepeat)});
                            plan.cut->settle.push_back({SettleStep::Kind::kTake, 70, 1, 0, "take"});
                            return plan;
                          }};
  for (const NamedPlan& plan : {buckets, take}) {
    SCOPED_TRACE(plan.name);
    const Stream one = DrainWorld(plan, data, 1, "", 9);
    ASSERT_EQ(one.digests.size(), 9u);
    const Stream many = DrainWorld(plan, data, 6, "", 9);
    EXPECT_EQ(many.digests, one.digests);
    EXPECT_EQ(many.tokens, one.tokens);
    const Stream tail = DrainWorld(plan, data, 3, many.tokens[4], 4);
    ExpectTail(tail, one, 4);
  }
}

// S-BATCH-3, S-BATCH-12: the rows of a bucket that the end of a pass closed are fewer than ranks.
TEST(DividedRowsTest, SlicesHaveTheRowsOfTheLargestAndTheRestIsMasked) {
  constexpr int kWorld = 5;
  const FakeData data = MakeFakeData(40);
  std::map<uint64_t, int64_t> rows_of, valid_of, global_valid, next;
  bool some_rank_has_none = false;
  for (int rank = 0; rank < kWorld; ++rank) {
    const auto pipeline = OpenFake(TokensPlan(BatchSpec::Kind::kBucket), data, FakeContext(2),
                                   RankOptions(rank, kWorld));
    while (true) {
      const auto batch = pipeline->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (!batch->has_value()) break;
      const uint64_t index = (*batch)->index();
      if (rank == 0) rows_of[index] = (*batch)->num_rows();
      EXPECT_TRUE((*batch)->num_rows() == 2 || (*batch)->num_rows() == 4);  // 8 / 5, 16 / 5
      EXPECT_EQ((*batch)->num_rows(), rows_of[index]);
      const int64_t slots = rows_of[index] == 2 ? 8 : 16;
      EXPECT_EQ((*batch)->first_global_row(), slots * rank / kWorld);
      int64_t valid = 0;
      for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
        valid += (*batch)->valid()[row];
        if ((*batch)->valid()[row] != 0) continue;
        EXPECT_EQ((*batch)->ids()[row], SampleId());
        const ConstTensorView tokens = (*batch)->Find("tokens");
        for (int64_t i = 0; i < tokens.shape[1]; ++i) {
          EXPECT_EQ(tokens.as<int64_t>()[row * tokens.shape[1] + i], 0);
        }
      }
      EXPECT_EQ(valid, (*batch)->num_valid_rows());
      some_rank_has_none = some_rank_has_none || valid == 0;
      valid_of[index] += valid;
      global_valid[index] = (*batch)->num_global_valid_rows();
    }
  }
  EXPECT_EQ(valid_of, global_valid);
  EXPECT_TRUE(some_rank_has_none);
}

// The records of the valid rows of each batch, and of the damaged ones, over all ranks.
struct Records {
  std::map<uint64_t, std::multiset<uint64_t>> good, damaged;
  friend bool operator==(const Records&, const Records&) = default;
};

Records RecordsOf(DamageSpec::Policy policy, uint64_t lanes, const FakeData& data, int world) {
  const bool moves_up = policy == DamageSpec::Policy::kSkip && lanes == 1;
  Records records;
  for (int rank = 0; rank < world; ++rank) {
    PhysicalPlan plan = BucketPlan(lanes);
    plan.damage.policy = policy;
    const auto pipeline = OpenFake(std::move(plan), data, FakeContext(2), RankOptions(rank, world));
    while (true) {
      const auto batch = pipeline->Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || !batch->has_value()) break;
      bool empty_before = false;
      for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
        const bool valid = (*batch)->valid()[row] != 0;
        if (valid) records.good[(*batch)->index()].insert((*batch)->ids()[row].record);
        if (moves_up) {
          EXPECT_FALSE(valid && empty_before);
        }
        empty_before = empty_before || !valid;
      }
      for (const DamagedSample& one : (*batch)->damaged()) {
        records.damaged[(*batch)->index()].insert(one.id.record);
      }
    }
  }
  return records;
}

// S-DAMAGE-3, S-DAMAGE-4, S-DAMAGE-8.
TEST(DividedRowsTest, ABatchHasTheSameGoodAndDamagedSamplesInEveryWorld) {
  FakeData data = MakeFakeData(70);
  data.bad_crc = {2, 3, 11, 30, 44, 45, 46, 69};
  for (const auto policy : {DamageSpec::Policy::kSkip, DamageSpec::Policy::kMask}) {
    for (const uint64_t lanes : {1, 2}) {
      const Records one = RecordsOf(policy, lanes, data, 1);
      EXPECT_FALSE(one.damaged.empty());
      for (const int world : {3, 8}) EXPECT_EQ(RecordsOf(policy, lanes, data, world), one);
    }
  }
}

TEST(DividedRowsTest, MoreRanksThanRowsOfTheSmallestBatchAreRefused) {
  const auto opened = TryOpenFake(TokensPlan(BatchSpec::Kind::kBucket), MakeFakeData(10),
                                  FakeContext(1), RankOptions(0, 9));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(opened.status());
}

}  // namespace
}  // namespace millrace::pipeline
