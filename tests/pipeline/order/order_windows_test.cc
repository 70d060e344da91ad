// The windows of a block-wise shuffle, as those who fetch whole windows see them.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "pipeline/order/order.h"

namespace millrace::pipeline {
namespace {

OrderStep BlocksOf(uint64_t bytes, uint64_t window) {
  OrderStep step;
  step.stage = "blocks";
  step.kind = OrderStep::Kind::kGlobalShuffle;
  step.count = bytes;
  step.second = window;
  return step;
}

OrderStep StepOf(OrderStep::Kind kind, uint64_t count, uint64_t second = 0) {
  OrderStep step;
  step.stage = "step";
  step.kind = kind;
  step.count = count;
  step.second = second;
  return step;
}

// An order over `records` records of ten bytes.
Order OrderOf(const std::vector<OrderStep>& steps, uint64_t records = 100) {
  OrderPlan plan;
  plan.steps = steps;
  const std::vector<OrderSource> sources = {
      {.num_records = records, .total_bytes = 10 * records, .shard_records = {}}};
  return Order::Make(plan, sources, 7).value();
}

// S-FETCH-2.
TEST(OrderWindowsTest, AWindowHasItsBlocksAndNoOthers) {
  const Order order = OrderOf({BlocksOf(50, 20), StepOf(OrderStep::Kind::kRepeat, 3)});
  EXPECT_EQ(order.WindowSize(), 20u);
  for (uint64_t begin = 0; begin < 300;) {
    const uint64_t end = order.WindowEnd(begin);
    ASSERT_EQ(end, begin + 20);
    std::set<uint64_t> blocks;
    std::vector<SampleId> ids;
    for (uint64_t at = begin; at < end; ++at) {
      EXPECT_EQ(order.WindowEnd(at), end);
      ids.push_back({.epoch = 0, .record = at});
    }
    order.Map(ids, nullptr);
    for (const SampleId& id : ids) blocks.insert(id.record / 5);
    EXPECT_EQ(blocks.size(), 4u) << "of five records each";
    begin = end;
  }
}

TEST(OrderWindowsTest, TheLastWindowEndsWithThePass) {
  const Order order = OrderOf({BlocksOf(50, 30)});
  EXPECT_EQ(order.WindowEnd(89), 90u);
  EXPECT_EQ(order.WindowEnd(90), 100u);
}

TEST(OrderWindowsTest, SkipTakeAndShardKeepWindows) {
  const Order order = OrderOf(
      {BlocksOf(50, 30), StepOf(OrderStep::Kind::kSkip, 10), StepOf(OrderStep::Kind::kTake, 80)});
  EXPECT_EQ(order.WindowEnd(0), 20u);
  EXPECT_EQ(order.WindowEnd(20), 50u);
  // Elements 1, 5, 9, ..., 29 of the first window.
  const Order shard = OrderOf({BlocksOf(50, 30), StepOf(OrderStep::Kind::kShard, 4, 1)});
  EXPECT_EQ(shard.WindowSize(), 7u);
  EXPECT_EQ(shard.WindowEnd(0), 8u);
  EXPECT_EQ(shard.WindowEnd(8), 15u) << "33 to 57";
}

TEST(OrderWindowsTest, WhatTakesWindowsApartHasNone) {
  EXPECT_EQ(OrderOf({}).WindowSize(), 0u);
  EXPECT_EQ(OrderOf({BlocksOf(0, 0)}).WindowSize(), 0u) << "single records";
  EXPECT_EQ(OrderOf({BlocksOf(50, 30), StepOf(OrderStep::Kind::kShuffle, 8)}).WindowSize(), 0u);
}

}  // namespace
}  // namespace millrace::pipeline
