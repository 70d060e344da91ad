#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "pipeline/order/order.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/fake_ops.h"
#include "tests/pipeline/order/order_model.h"
#include "tests/sanitized.h"

// Orders with every step and with joins, against iterators that pull from one another.

namespace millrace::pipeline {
namespace {

using model::Kind;
using model::Rows;
using Root = OrderPlan::Root;

OrderStep Step2(Kind kind, uint64_t count, uint64_t second) {
  OrderStep step = Step(kind, count);
  step.second = second;
  return step;
}

OrderSource Source(uint64_t num_records) {
  return {.num_records = num_records, .total_bytes = 8 * num_records, .shard_records = {}};
}

OrderPlan SourcePlan(size_t source, std::vector<OrderStep> steps = {}) {
  OrderPlan plan;
  plan.source = source;
  plan.steps = std::move(steps);
  return plan;
}

OrderPlan JoinPlan(Root root, std::vector<OrderPlan> inputs, std::vector<double> weights = {}) {
  OrderPlan plan;
  plan.root = root;
  plan.inputs = std::move(inputs);
  plan.weights = std::move(weights);
  plan.key = HashName("join");
  plan.stage = "join";
  return plan;
}

Rows Elements(const Order& order, uint64_t first, size_t num_rows, OrderMemo* memo) {
  Rows rows(num_rows);
  for (size_t i = 0; i < num_rows; ++i) rows[i] = {.epoch = 0, .record = first + i};
  order.Map(rows, memo);
  return rows;
}

Rows FirstElements(const Order& order, size_t max_rows) {
  OrderMemo memo(order);
  return Elements(order, 0, std::min<uint64_t>(max_rows, order.size()), &memo);
}

// Draws plans. Finite passes stay short, since the oracle walks them again and again.
class Drawer {
 public:
  explicit Drawer(uint32_t seed) : random_(seed) {}

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  OrderPlan Tree(int joins) {
    if (joins == 0 || Below(3) == 0) return Leaf();
    static constexpr double kWeights[] = {1, 2, 4, 1, 8};
    OrderPlan plan = JoinPlan(Below(2) == 0 ? Root::kConcatenate : Root::kMix, {});
    const uint64_t num_inputs = uint64_t{1} << Below(3);
    for (uint64_t j = 0; j < num_inputs; ++j) {
      plan.inputs.push_back(Tree(joins - 1));
      plan.weights.push_back(1);
    }
    if (num_inputs == 2 && Below(2) == 0) plan.weights = {3, 1};
    if (num_inputs == 4 && Below(2) == 0) plan.weights = {kWeights[0], 1, kWeights[2], 2};
    AppendSteps(2, plan);
    return plan;
  }

  std::vector<OrderSource>& sources() { return sources_; }

 private:
  OrderPlan Leaf() {
    OrderPlan plan = SourcePlan(sources_.size());
    OrderSource source;
    const uint64_t files = 1 + Below(4);
    for (uint64_t f = 0; f < files; ++f) {
      source.shard_records.push_back(Below(5));
      source.num_records += source.shard_records.back();
    }
    sources_.push_back(std::move(source));
    if (Below(3) == 0) {
      plan.steps.push_back(Step2(Kind::kInterleave, 1 + Below(4), 1 + Below(3)));
      plan.steps.back().shuffle_files = Below(2) == 0;
    }
    AppendSteps(3, plan);
    return plan;
  }

  void AppendSteps(uint64_t most, OrderPlan& plan) {
    for (uint64_t left = Below(most + 1); left > 0; --left) plan.steps.push_back(RandomStep());
  }

  OrderStep RandomStep() {
    switch (Below(7)) {
      case 0:
        return Step(Kind::kRepeat, Below(4) == 0 ? 0 : 1 + Below(2));
      case 1:
        return Step(Kind::kTake, 1 + Below(30));
      case 2:
        return Step(Kind::kSkip, Below(6));
      case 3: {
        const uint64_t shards = 1 + Below(4);
        return Step2(Kind::kShard, shards, Below(shards));
      }
      case 4:
        return Step(Kind::kGlobalShuffle);
      default:
        return Step(Kind::kShuffle, 1 + Below(9));
    }
  }

  std::mt19937 random_;
  std::vector<OrderSource> sources_;
};

// S-ORDER-1, S-ORDER-2, S-ORDER-6, S-ORDER-8, S-ORDER-10, S-ORDER-11, S-ORDER-12, S-ORDER-13.
TEST(OrderTreeTest, RandomTreesEqualTheIteratorModel) {
  int compared = 0, joined = 0;
  for (uint32_t i = 0; i < Rounds(6000u); ++i) {
    Drawer draw(i);
    PhysicalPlan plan = MakePlan(1 + draw.Below(7));
    plan.order = draw.Tree(2);
    if (draw.Below(3) == 0) plan.batch_order = {Step(Kind::kRepeat, 3)};
    const auto order = BatchOrder::Make(plan, draw.sources());
    if (!order.ok()) continue;
    model::Model oracle(draw.sources(), plan.seed);
    const std::vector<Rows> expected = oracle.Batches(plan, 50);
    ASSERT_EQ(expected.size(), std::min<uint64_t>(order->num_batches(), 50)) << "plan " << i;
    OrderMemo memo(order->records());
    for (size_t g = 0; g < expected.size(); ++g) {
      const BatchPlace place = order->Place(g);
      Rows rows(place.valid_rows);
      order->Fill(place, 0, rows, &memo);
      ASSERT_EQ(rows, expected[g]) << "plan " << i << " batch " << g;
    }
    ++compared;
    joined += plan.order.root != Root::kSource ? 1 : 0;
  }
  EXPECT_GT(compared, Rounds(4000));
  EXPECT_GT(joined, Rounds(2000));
}

TEST(OrderTreeTest, RandomAccessEqualsSequentialWithAndWithoutAMemo) {
  int compared = 0;
  for (uint32_t i = 0; i < Rounds(1500u); ++i) {
    Drawer draw(i + 100000);
    const OrderPlan plan = draw.Tree(2);
    const auto order = Order::Make(plan, draw.sources(), 3);
    if (!order.ok() || order->size() == 0) continue;
    ++compared;
    const Rows all = FirstElements(*order, 300);
    OrderMemo memo(*order);
    for (int jump = 0; jump < 12; ++jump) {
      const uint64_t first = draw.Below(all.size());
      const uint64_t length = 1 + draw.Below(std::min<uint64_t>(20, all.size() - first));
      const Rows rows = Elements(*order, first, length, jump % 3 == 0 ? nullptr : &memo);
      ASSERT_TRUE(std::ranges::equal(rows, std::span(all).subspan(first, length)))
          << "plan " << i << " at " << first;
    }
  }
  EXPECT_GT(compared, Rounds(1000));
}

// S-ORDER-6.
TEST(OrderTreeTest, ShardsPartitionTheirInput) {
  std::vector<OrderSource> sources = {Source(23)};
  std::vector<uint64_t> seen;
  for (uint64_t index = 0; index < 5; ++index) {
    const auto order = Order::Make(SourcePlan(0, {Step2(Kind::kShard, 5, index)}), sources, 1);
    for (const SampleId& id : FirstElements(*order, 100)) {
      EXPECT_EQ(id.record % 5, index);
      seen.push_back(id.record);
    }
  }
  std::ranges::sort(seen);
  ASSERT_EQ(seen.size(), 23u);
  for (uint64_t r = 0; r < 23; ++r) EXPECT_EQ(seen[r], r);
}

// S-ORDER-11, S-ORDER-13.
TEST(OrderTreeTest, ConcatenateNumbersRecordsThroughItsSourcesAndCountsEpochsOfEach) {
  const std::vector<OrderSource> sources = {Source(2), Source(1)};
  OrderPlan plan =
      JoinPlan(Root::kConcatenate, {SourcePlan(0, {Step(Kind::kRepeat, 2)}), SourcePlan(1)});
  plan.steps = {Step(Kind::kRepeat, 2)};
  const auto order = Order::Make(plan, sources, 1);
  ASSERT_TRUE(order.ok());
  EXPECT_THAT(FirstElements(*order, 100),
              testing::ElementsAre(SampleId{0, 0}, SampleId{0, 1}, SampleId{1, 0}, SampleId{1, 1},
                                   SampleId{0, 2}, SampleId{2, 0}, SampleId{2, 1}, SampleId{3, 0},
                                   SampleId{3, 1}, SampleId{1, 2}));
  EXPECT_EQ(order->EpochAt(4, 0), 0u);
  EXPECT_EQ(order->EpochAt(5, 0), 1u);
  EXPECT_EQ(order->EpochSize(), 5u);
}

// S-ORDER-13.
TEST(OrderTreeTest, InputsWithoutEndThatAreBegunAgainNeverRepeatASample) {
  const std::vector<OrderSource> sources = {Source(3), Source(4)};
  const std::vector<OrderStep> for_ever = {Step(Kind::kRepeat, 0)};
  OrderPlan plan = JoinPlan(Root::kMix, {SourcePlan(0, for_ever), SourcePlan(1, for_ever)}, {1, 1});
  plan.steps = {Step(Kind::kTake, 50), Step(Kind::kRepeat, 4)};
  Rows rows = FirstElements(*Order::Make(plan, sources, 1), 1000);
  ASSERT_EQ(rows.size(), 200u);
  std::ranges::sort(rows, {}, [](const SampleId& id) { return std::pair(id.epoch, id.record); });
  EXPECT_EQ(std::ranges::adjacent_find(rows), rows.end());
  EXPECT_EQ(rows.back().epoch >> 32, 3u);
}

// S-ORDER-12.
TEST(MixTest, EveryBlockHasTheSharesOfTheWeightsAndEachInputKeepsItsOrder) {
  const std::vector<OrderSource> sources(3, Source(uint64_t{1} << 40));
  const std::vector<double> weights = {0.1, 2.3, 0.7};
  const OrderPlan plan =
      JoinPlan(Root::kMix, {SourcePlan(0), SourcePlan(1), SourcePlan(2)}, weights);
  const auto order = Order::Make(plan, sources, 1);
  ASSERT_TRUE(order.ok());
  OrderMemo memo(*order);
  std::vector<uint64_t> next(3, 0);
  for (uint64_t block = 0; block < 3000; ++block) {
    const std::vector<uint64_t> before = next;
    for (const SampleId& id : Elements(*order, block * 1024, 1024, &memo)) {
      const uint64_t input = id.record >> 40;
      ASSERT_EQ(id.record & ((uint64_t{1} << 40) - 1), next[input]++);
    }
    for (size_t j = 0; j < 3; ++j) {
      const double share = weights[j] / 3.1 * 1024;
      ASSERT_NEAR(static_cast<double>(next[j] - before[j]), share, 1.001) << "block " << block;
      ASSERT_NEAR(static_cast<double>(next[j]), share * static_cast<double>(block + 1), 8);
      if (block == 1023) {  // a whole period
        ASSERT_NEAR(static_cast<double>(next[j]), share * 1024, 1);
      }
    }
  }
}

// S-ORDER-12.
TEST(MixTest, EndsBeforeTheFirstElementOfAnExhaustedInput) {
  const std::vector<OrderSource> sources = {Source(5000), Source(700)};
  const OrderPlan plan = JoinPlan(Root::kMix, {SourcePlan(0), SourcePlan(1)}, {3, 1});
  const auto order = Order::Make(plan, sources, 1);
  ASSERT_TRUE(order.ok());
  std::map<bool, uint64_t> count;
  for (const SampleId& id : FirstElements(*order, 10000)) ++count[id.record >= 5000];
  EXPECT_EQ(count[true], 700u);
  EXPECT_EQ(order->size(), count[true] + count[false]);
  EXPECT_NEAR(static_cast<double>(count[false]), 2100, 1024);
  model::Model oracle(sources, 1);
  EXPECT_EQ(oracle.Elements(plan, 10000).size(), order->size());
}

// S-ORDER-12.
TEST(MixTest, WeightsThatAreNoSharesAreInvalid) {
  const std::vector<OrderSource> sources = {Source(5), Source(7)};
  const auto make = [&](std::vector<double> weights) {
    const OrderPlan plan = JoinPlan(Root::kMix, {SourcePlan(0), SourcePlan(1)}, std::move(weights));
    return Order::Make(plan, sources, 1);
  };
  EXPECT_TRUE(make({}).ok());
  EXPECT_TRUE(make({0, 1}).ok());
  EXPECT_TRUE(make({1e-12, 1}).ok());
  for (const auto& bad : std::vector<std::vector<double>>{
           {1}, {0, 0}, {-1, 2}, {std::nan(""), 1}, {1e308, 1e308}, {HUGE_VAL, 1}}) {
    const auto order = make(bad);
    EXPECT_EQ(order.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_MESSAGE(order.status());
  }
}

// S-ORDER-3, S-ORDER-7.
TEST(OrderTreeTest, StepsThatMakeNoSenseAreInvalid) {
  OrderSource files = Source(6);
  files.shard_records = {2, 4};
  const std::vector<OrderSource> sources = {files, Source(6), Source(kInfinite)};
  const auto code = [&](size_t source, std::vector<OrderStep> steps) {
    return Order::Make(SourcePlan(source, std::move(steps)), sources, 1).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(0, {Step2(Kind::kInterleave, 2, 1)}), absl::StatusCode::kOk);
  EXPECT_EQ(code(0, {Step2(Kind::kInterleave, 0, 1)}), kInvalid);
  EXPECT_EQ(code(0, {Step2(Kind::kInterleave, 2, 0)}), kInvalid);
  EXPECT_EQ(code(0, {Step(Kind::kTake, 3), Step2(Kind::kInterleave, 2, 1)}), kInvalid);
  EXPECT_EQ(code(1, {Step2(Kind::kInterleave, 2, 1)}), kInvalid);
  EXPECT_EQ(code(2, {Step2(Kind::kInterleave, 2, 1)}), kInvalid);
  EXPECT_EQ(code(2, {Step(Kind::kGlobalShuffle)}), kInvalid);
  EXPECT_EQ(code(2, {Step(Kind::kShuffle, 100)}), absl::StatusCode::kOk);
  EXPECT_EQ(code(2, {Step(Kind::kShuffle, kMaxShuffleBuffer)}), absl::StatusCode::kOk);
  EXPECT_EQ(code(2, {Step(Kind::kShuffle, kMaxShuffleBuffer + 1)}), kInvalid);
  EXPECT_EQ(code(1, {Step(Kind::kShuffle, uint64_t{1} << 40)}), absl::StatusCode::kOk);
  EXPECT_EQ(code(1, {Step(Kind::kShuffle, 0)}), kInvalid);
  EXPECT_EQ(code(1, {Step2(Kind::kShard, 0, 0)}), kInvalid);
  EXPECT_EQ(code(1, {Step2(Kind::kShard, 3, 3)}), kInvalid);
  EXPECT_EQ(code(1, {Step2(Kind::kShard, 30, 29)}), absl::StatusCode::kOk);
  EXPECT_EQ(code(1, {Step2(Kind::kShard, kMaxShards, 29)}), absl::StatusCode::kOk);
  EXPECT_EQ(code(1, {Step2(Kind::kShard, kMaxShards + 1, 29)}), kInvalid);
}

// S-ORDER-14.
TEST(LaneTest, LanesPartitionEachPassAndARowOfABatchBelongsToOneLane) {
  PhysicalPlan plan = MakePlan(12, {Step(Kind::kShuffle, 5), Step(Kind::kRepeat, 2)});
  const std::vector<OrderSource> sources = {Source(25)};
  for (const uint64_t lanes : {1, 2, 3, 4, 6, 12}) {
    plan.lanes = lanes;
    const auto order = Order::Make(plan.order, sources, plan.seed);
    const Rows all = FirstElements(*order, 1000);
    const uint64_t block = LaneBlock(plan);
    EXPECT_EQ(block, 12 / lanes);
    Rows dealt(all.size());
    uint64_t total = 0;
    for (uint64_t lane = 0; lane < lanes; ++lane) {
      const LaneOrder lane_order(*order, lane, lanes, block);
      OrderMemo memo(*order);
      Rows rows(lane_order.size() * 3);  // three passes
      for (size_t i = 0; i < rows.size(); ++i) lane_order.Fill(i, {&rows[i], 1}, &memo);
      Rows at_once(rows.size());
      lane_order.Fill(0, at_once, nullptr);
      EXPECT_EQ(at_once, rows);
      for (uint64_t i = 0; i < lane_order.size(); ++i) {
        const uint64_t position = LanePosition(i, lane, lanes, block);
        ASSERT_LT(position, all.size());
        EXPECT_EQ(position % 12 * lanes / 12, lane);
        EXPECT_EQ(rows[i], all[position]);
        EXPECT_EQ(rows[lane_order.size() + i].epoch, all[position].epoch + 2);
        dealt[position] = rows[i];
      }
      total += lane_order.size();
    }
    EXPECT_EQ(total, all.size());
    EXPECT_EQ(dealt, all);
  }
  plan.batch.kind = BatchSpec::Kind::kBucket;
  EXPECT_EQ(LaneBlock(plan), 1u);
  EXPECT_EQ(LaneSize(kInfinite, 0, 4, 3), kInfinite);
}

}  // namespace
}  // namespace millrace::pipeline
