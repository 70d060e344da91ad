#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>

#include "pipeline/order_internal.h"
#include "tests/pipeline/fake_ops.h"

// The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;
using Rows = std::vector<SampleId>;

// The oracle: iterators that pull from one another, as tf.data describes its stages. A repeat
// begins its input again when it has come to its end; the source counts how often it is begun.
class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual std::optional<Rows> Pull() = 0;
};
using Factory = std::function<std::unique_ptr<Iterator>()>;

class SourceIterator final : public Iterator {
 public:
  SourceIterator(uint64_t size, uint64_t& begun) : size_(size), begun_(begun) {}
  std::optional<Rows> Pull() override {
    if (next_ == 0) epoch_ = begun_++;
    if (next_ == size_) return std::nullopt;
    return Rows{{epoch_, next_++}};
  }

 private:
  const uint64_t size_;
  uint64_t& begun_;
  uint64_t next_ = 0, epoch_ = 0;
};

class StepIterator final : public Iterator {
 public:
  StepIterator(OrderStep step, Factory inner)
      : step_(std::move(step)), make_(std::move(inner)), inner_(make_()) {}
  std::optional<Rows> Pull() override {
    if (step_.kind == Kind::kTake) return pulled_++ < step_.count ? inner_->Pull() : std::nullopt;
    if (step_.kind == Kind::kSkip) {
      for (; pulled_ < step_.count; ++pulled_) {
        if (!inner_->Pull()) return std::nullopt;
      }
      return inner_->Pull();
    }
    while (true) {
      if (auto rows = inner_->Pull()) return rows;
      if (++pulled_ == step_.count) return std::nullopt;
      inner_ = make_();
    }
  }

 private:
  const OrderStep step_;
  const Factory make_;
  std::unique_ptr<Iterator> inner_;
  uint64_t pulled_ = 0;
};

class BatchIterator final : public Iterator {
 public:
  BatchIterator(uint64_t size, bool drop, const Factory& inner)
      : size_(size), drop_(drop), inner_(inner()) {}
  std::optional<Rows> Pull() override {
    Rows batch;
    while (!ended_ && batch.size() < size_) {
      const auto row = inner_->Pull();
      ended_ = !row.has_value();
      if (row) batch.push_back(row->front());
    }
    if (batch.empty() || (drop_ && batch.size() < size_)) return std::nullopt;
    return batch;
  }

 private:
  const uint64_t size_;
  const bool drop_;
  std::unique_ptr<Iterator> inner_;
  bool ended_ = false;
};

Factory Chain(Factory inner, const std::vector<OrderStep>& steps) {
  for (const OrderStep& step : steps) {
    inner = [step, inner] { return std::make_unique<StepIterator>(step, inner); };
  }
  return inner;
}

std::vector<Rows> Expect(const PhysicalPlan& plan, uint64_t records, size_t max_batches) {
  uint64_t begun = 0;
  const Factory source = [&] { return std::make_unique<SourceIterator>(records, begun); };
  const Factory record_order = Chain(source, plan.order.steps);
  const Factory batch = [&] {
    return std::make_unique<BatchIterator>(plan.batch.size, plan.batch.drop_remainder, record_order);
  };
  const auto stream = Chain(batch, plan.batch_order)();
  std::vector<Rows> batches;
  while (batches.size() < max_batches) {
    auto rows = stream->Pull();
    if (!rows) break;
    batches.push_back(*std::move(rows));
  }
  return batches;
}

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
    ASSERT_TRUE(Evaluate(*order, 60) == Expect(plan, records, 60)) << "plan " << i;
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
