#include "pipeline/order/order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "tests/pipeline/executor/fake_ops.h"
#include "tests/pipeline/order/order_model.h"

// The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using model::Kind;
using model::Rows;

std::vector<Rows> Evaluate(const BatchOrder& order, size_t max_batches) {
  std::vector<Rows> batches;
  for (uint64_t g = 0; g < order.num_batches() && batches.size() < max_batches; ++g) {
    const BatchPlace place = order.Place(g);
    Rows rows(place.valid_rows);
    order.Fill(place, 0, rows, nullptr);
    EXPECT_EQ(place.epoch, rows.front().epoch);
    batches.push_back(std::move(rows));
  }
  return batches;
}

absl::StatusOr<BatchOrder> MakeOrder(const PhysicalPlan& plan, uint64_t num_records) {
  const OrderSource source{.num_records = num_records, .total_bytes = 0, .shard_records = {}};
  return BatchOrder::Make(plan, {&source, 1});
}

std::vector<OrderStep> RandomSteps(std::mt19937& random, bool takes) {
  std::vector<OrderStep> steps(random() % 4);
  for (OrderStep& step : steps) {
    const uint64_t kind = random() % 3;
    if (kind == 0) step = Step(Kind::kRepeat, random() % 5 == 0 ? 0 : 1 + random() % 3);
    if (kind == 1) step = Step(takes ? Kind::kTake : Kind::kSkip, random() % 25);
    if (kind == 2) step = Step(Kind::kSkip, random() % 7);
  }
  return steps;
}

// S-ORDER-1, S-ORDER-2, S-ORDER-3, S-BATCH-1, S-BATCH-2.
TEST(BatchOrderTest, RandomPlansEqualTheIteratorModel) {
  std::mt19937 random(1);
  int compared = 0;
  for (int i = 0; i < 4000; ++i) {
    PhysicalPlan plan;
    plan.batch.size = 1 + random() % 6;
    plan.batch.drop_remainder = random() % 2 == 0;
    plan.order.steps = RandomSteps(random, true);
    plan.batch_order = RandomSteps(random, !plan.batch.drop_remainder);
    const uint64_t records = 1 + random() % 12;
    const auto order = MakeOrder(plan, records);
    if (!order.ok()) continue;  // repeats nothing for ever
    ++compared;
    model::Model oracle({{.num_records = records, .total_bytes = 0, .shard_records = {}}},
                        plan.seed);
    ASSERT_TRUE(Evaluate(*order, 60) == oracle.Batches(plan, 60)) << "plan " << i;
  }
  EXPECT_GT(compared, 3000);
}

// S-ORDER-4.
TEST(OrderTest, GlobalShuffleIsAnotherBijectionEachEpoch) {
  for (const uint64_t records : {1u, 2u, 5u, 64u, 1000u}) {
    PhysicalPlan plan = MakePlan(1, {Step(Kind::kGlobalShuffle), Step(Kind::kRepeat, 3)});
    const auto order = MakeOrder(plan, records);
    ASSERT_TRUE(order.ok());
    std::vector<std::vector<uint64_t>> epochs(3);
    for (const Rows& rows : Evaluate(*order, 3 * records)) {
      epochs[rows[0].epoch].push_back(rows[0].record);
    }
    if (records == 1000) {
      EXPECT_NE(epochs[0], epochs[1]);
    }
    for (auto& epoch : epochs) {
      ASSERT_EQ(epoch.size(), records);
      std::ranges::sort(epoch);
      for (uint64_t i = 0; i < records; ++i) ASSERT_EQ(epoch[i], i);
    }
  }
}

TEST(OrderTest, ShuffleOfARepeatMixesItsEpochsAndBatchesCountItAsOne) {
  PhysicalPlan plan = MakePlan(4, {Step(Kind::kRepeat, 2), Step(Kind::kGlobalShuffle)});
  const auto order = MakeOrder(plan, 50);
  ASSERT_TRUE(order.ok());
  Rows all;
  for (uint64_t g = 0; g < order->num_batches(); ++g) {
    const BatchPlace place = order->Place(g);
    EXPECT_EQ(place.epoch, 0u);
    Rows rows(place.valid_rows);
    order->Fill(place, 0, rows, nullptr);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  std::ranges::sort(all, {}, [](const SampleId& id) { return std::pair(id.epoch, id.record); });
  ASSERT_EQ(all.size(), 100u);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(all[i], (SampleId{i / 50, i % 50}));
}

TEST(OrderTest, SeedAndStageKeyTheShuffle) {
  PhysicalPlan plan = MakePlan(100, {Step(Kind::kGlobalShuffle)});
  const auto base = Evaluate(*MakeOrder(plan, 100), 1);
  plan.seed = 8;
  EXPECT_NE(Evaluate(*MakeOrder(plan, 100), 1), base);
  plan.seed = 7;
  plan.order.steps[0].key = HashName("other");
  EXPECT_NE(Evaluate(*MakeOrder(plan, 100), 1), base);
}

// S-ORDER-3.
TEST(OrderTest, RepeatingNothingForEverIsInvalid) {
  const auto order = MakeOrder(MakePlan(4, {Step(Kind::kRepeat, 0)}), 0);
  EXPECT_EQ(order.status().code(), absl::StatusCode::kInvalidArgument);
  PhysicalPlan dropped = MakePlan(4);
  dropped.batch.drop_remainder = true;
  dropped.batch_order = {Step(Kind::kRepeat, 0)};
  EXPECT_FALSE(MakeOrder(dropped, 3).ok());
}

// S-ORDER-3.
TEST(OrderTest, CountsThatOverflowAreWithoutEnd) {
  PhysicalPlan plan = MakePlan(4, {Step(Kind::kRepeat, ~uint64_t{0})});
  EXPECT_TRUE(MakeOrder(plan, 10)->length().infinite);
  plan.order.steps = {Step(Kind::kSkip, ~uint64_t{0})};
  EXPECT_EQ(MakeOrder(plan, 10)->num_batches(), 0u);
  plan.order.steps = {Step(Kind::kRepeat, 0), Step(Kind::kSkip, ~uint64_t{0})};
  EXPECT_FALSE(MakeOrder(plan, 10).ok());
  plan.order.steps = {Step(Kind::kRepeat, 0), Step(Kind::kGlobalShuffle)};
  EXPECT_FALSE(MakeOrder(plan, 10).ok());
}

TEST(OrderTest, LengthTellsBatchesPerEpochOnlyWhereEpochsAlign) {
  const auto per_epoch = [](const PhysicalPlan& plan) {
    return MakeOrder(plan, 12)->length().batches_per_epoch;
  };
  EXPECT_EQ(per_epoch(MakePlan(5)), 3u);
  EXPECT_EQ(per_epoch(MakePlan(4, {Step(Kind::kRepeat, 0)})), 3u);
  EXPECT_EQ(per_epoch(MakePlan(5, {Step(Kind::kRepeat, 0)})), 0u);
  PhysicalPlan plan = MakePlan(5);
  plan.batch_order = {Step(Kind::kTake, 2), Step(Kind::kRepeat, 0)};
  EXPECT_EQ(per_epoch(plan), 2u);
}

// S-BATCH-4.
TEST(OrderTest, LastBatchOfAnEpochEndsIt) {
  PhysicalPlan plan = MakePlan(5);
  plan.batch_order = {Step(Kind::kRepeat, 2)};
  const auto order = MakeOrder(plan, 12);
  std::vector<bool> ends;
  for (uint64_t g = 0; g < order->num_batches(); ++g) ends.push_back(order->Place(g).ends_epoch);
  EXPECT_THAT(ends, testing::ElementsAre(false, false, true, false, false, true));
}

// S-RANK-1.
TEST(RankSliceTest, SlicesPartitionTheBatchForEveryWorld) {
  for (uint64_t batch_size : {9u, 10u, 17u, 64u}) {
    for (int world = 1; world <= 9; ++world) {
      uint64_t next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const RankSlice slice = SliceOfRank(batch_size, rank, world);
        EXPECT_EQ(slice.first_row, next);
        EXPECT_LE(slice.num_rows, slice.padded_rows);
        EXPECT_LE(slice.padded_rows, slice.num_rows + 1);
        next += slice.num_rows;
      }
      EXPECT_EQ(next, batch_size);
    }
  }
  EXPECT_EQ(SliceOfRank(uint64_t{1} << 61, 8, 9).first_row, ((uint64_t{1} << 61) / 9) * 8 + 1);
}

}  // namespace
}  // namespace millrace::pipeline
