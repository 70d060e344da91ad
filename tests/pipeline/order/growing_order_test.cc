#include "pipeline/order/growing_order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;
using Steps = std::vector<OrderStep>;

OrderStep Step(Kind kind, uint64_t count, uint64_t second = 0) {
  OrderStep step;
  step.kind = kind;
  step.count = count;
  step.second = second;
  step.key = 5 + count;
  step.stage = "step";
  return step;
}

PhysicalPlan PlanOf(const Steps& steps, uint64_t batch_size = 4) {
  PhysicalPlan plan;
  plan.seed = 3;
  plan.order.steps = steps;
  plan.batch.size = batch_size;
  return plan;
}

// The elements of the order of so many records, at most `most` of them.
std::vector<uint64_t> Elements(const Steps& steps, uint64_t num_records, uint64_t most) {
  OrderSource source;
  source.num_records = num_records;
  const Order order = *Order::Make(PlanOf(steps).order, {&source, 1}, 3);
  std::vector<SampleId> places(std::min(order.size(), most));
  for (size_t i = 0; i < places.size(); ++i) places[i].record = i;
  OrderMemo memo(order);
  order.Map(places, &memo);
  std::vector<uint64_t> records;
  for (const SampleId& place : places) records.push_back(place.record);
  return records;
}

Steps DrawSteps(std::mt19937& random) {
  Steps steps;
  for (uint64_t i = random() % 5; i > 0; --i) {
    const uint64_t count = 1 + random() % 12;
    switch (random() % 4) {
      case 0:
        steps.push_back(Step(Kind::kShuffle, count));
        break;
      case 1:
        steps.push_back(Step(Kind::kSkip, count - 1));
        break;
      case 2:
        steps.push_back(Step(Kind::kTake, 3 * count));
        break;
      default:
        steps.push_back(Step(Kind::kShard, count, random() % count));
    }
  }
  return steps;
}

// S-ORDER-22.
TEST(GrowingOrderTest, WhatIsKnownStaysWhateverComes) {
  std::mt19937 random(1);
  for (int draw = 0; draw < 300; ++draw) {
    const Steps steps = DrawSteps(random);
    for (uint64_t records = 0; records < 40; ++records) {
      const uint64_t known = ElementsKnown(steps, records);
      const std::vector<uint64_t> endless = Elements(steps, kInfinite, known);
      ASSERT_EQ(endless.size(), known);
      for (const uint64_t record : endless) ASSERT_LT(record, records);
      for (uint64_t more = 0; more < 20; more += 1 + random() % 3) {
        ASSERT_EQ(Elements(steps, records + more, known), endless);
      }
    }
  }
}

TEST(GrowingOrderTest, OneShuffleKnowsAsMuchAsCanBeKnown) {
  for (const uint64_t buffer : {1, 2, 5, 16}) {
    const Steps steps = {Step(Kind::kShuffle, buffer)};
    for (uint64_t records = 1; records < 50; ++records) {
      const uint64_t known = ElementsKnown(steps, records);
      // The next element needs a record that is not there, or is another one at the end: it is then
      // the first of those that are drawn from the rest.
      EXPECT_EQ(known, std::max(records / 2, records > buffer ? records - buffer : 0));
    }
  }
}

TEST(GrowingOrderTest, RecordsNeededAreTheFewestOfWhichSoMuchIsKnown) {
  std::mt19937 random(2);
  for (int draw = 0; draw < 300; ++draw) {
    const Steps steps = DrawSteps(random);
    const uint64_t most = ElementsKnown(steps, 10000);
    for (uint64_t elements = 1; elements <= std::min<uint64_t>(most, 60); ++elements) {
      const uint64_t needed = RecordsNeeded(steps, elements);
      ASSERT_GE(ElementsKnown(steps, needed), elements);
      ASSERT_LT(ElementsKnown(steps, needed - 1), elements);
    }
  }
}

// Every record that is far behind is an element of this rank, or left out, once.
void ExpectAllAccountedFor(const Steps& steps, const RankSlice& slice, std::mt19937& random) {
  constexpr uint64_t kRecords = 400, kBatch = 4;
  const PhysicalPlan plan = PlanOf(steps, kBatch);
  LeftOut left_out = *LeftOut::Make(plan, slice);
  std::multiset<uint64_t> seen;
  for (uint64_t records = 0; records < kRecords; records += 1 + random() % 9) {
    for (const uint64_t record : left_out.Advance(records)) {
      ASSERT_LT(record, records);
      seen.insert(record);
    }
  }
  for (const uint64_t record : left_out.Advance(kRecords)) seen.insert(record);
  const std::vector<uint64_t> elements = Elements(steps, kInfinite, ElementsKnown(steps, kRecords));
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i % kBatch - slice.first_row < slice.num_rows) seen.insert(elements[i]);
  }
  EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), seen.size());
  // What may still lie in the shuffles' buffers.
  uint64_t open = 0;
  for (const OrderStep& step : steps) {
    if (step.kind == Kind::kTake) return;
    if (step.kind == Kind::kShuffle) open = (open + step.count) * 12;
  }
  EXPECT_GE(seen.size() + open, kRecords);
}

// S-USER-8.
TEST(GrowingOrderTest, ARecordIsAnElementOrLeftOut) {
  std::mt19937 random(4);
  for (int draw = 0; draw < 200; ++draw) {
    const Steps steps = DrawSteps(random);
    ExpectAllAccountedFor(steps, {.first_row = 0, .num_rows = 4, .padded_rows = 4}, random);
    ExpectAllAccountedFor(steps, {.first_row = 1, .num_rows = 2, .padded_rows = 2}, random);
  }
}

}  // namespace
}  // namespace millrace::pipeline
