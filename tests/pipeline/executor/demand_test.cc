#include "pipeline/executor/demand.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/memory_budget.h"
#include "base/metrics.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr Goals kLimits{.threads = 8, .ring = 4};

// A demand over time. Looks each millisecond; the ring is empty or full.
class DemandTest : public testing::Test {
 protected:
  // Lets so much time pass with `busy` workers at work.
  Goals Pass(int64_t milliseconds, int busy) {
    Goals wanted;
    for (int64_t i = 0; i < milliseconds; ++i) {
      for (int worker = 0; worker < busy; ++worker) demand_.BeginWork(now_ns_);
      const int64_t begin_ns = now_ns_;
      now_ns_ += kMillisecond;
      EXPECT_TRUE(demand_.LookIsDue(now_ns_));
      wanted = demand_.Look(now_ns_, ring_, budget_);
      demand_.SetThreads(demand_.Clamp(wanted).threads);
      EXPECT_FALSE(demand_.LookIsDue(now_ns_));
      for (int worker = 0; worker < busy; ++worker) demand_.EndWork(begin_ns, now_ns_);
    }
    EXPECT_EQ(demand_.busy(), 0);
    return wanted;
  }
  void FillRing() {
    while (ring_.num_ready() < kLimits.ring) {
      auto batch = std::make_unique<OpenBatch>();
      OpenBatch* const opened = batch.get();
      ring_.BeginOpening(ring_.next_batch());
      ring_.EndOpening(std::move(batch));
      ring_.PutReady(opened, false);
    }
  }

  int64_t now_ns_ = kMillisecond;
  MemoryBudget budget_{1 << 20, std::make_shared<Metrics>()};
  Ring ring_{kLimits.ring};
  Demand demand_{kLimits, true};
};

TEST_F(DemandTest, BeginsAtItsLimitsAndStaysWithinThem) {
  EXPECT_EQ(demand_.threads(), 8);
  EXPECT_EQ(demand_.Clamp({.threads = 100, .ring = 100}), kLimits);
  EXPECT_EQ(demand_.Clamp({.threads = 0, .ring = -1}), (Goals{.threads = 1, .ring = 1}));
}

TEST_F(DemandTest, WorkUnderWayCountsAsWorkDone) {
  demand_.BeginWork(now_ns_);
  demand_.BeginWork(now_ns_);
  EXPECT_EQ(demand_.busy(), 2);
  // One item ends in each look, the other is under way through all of them.
  FillRing();
  const int64_t begin_ns = now_ns_;
  Goals wanted;
  for (int i = 0; i < 2000; ++i) {
    now_ns_ += kMillisecond;
    wanted = demand_.Look(now_ns_, ring_, budget_);
    demand_.EndWork(now_ns_ - kMillisecond, now_ns_);
    demand_.BeginWork(now_ns_);
  }
  EXPECT_EQ(wanted.threads, 3);  // one and a half times two
  demand_.EndWork(now_ns_, now_ns_);
  demand_.EndWork(begin_ns, now_ns_);
  EXPECT_EQ(demand_.busy(), 0);
}

TEST_F(DemandTest, FewerThreadsAreWantedWhileTheRingIsFullAndMoreWhileTheConsumerWaits) {
  FillRing();
  EXPECT_EQ(Pass(2000, 1).threads, 2);
  while (!ring_.empty()) ring_.Delivered(ring_.TakeFront(), "");
  // Longer than a shrink is regretted.
  FillRing();
  Pass(3000, 1);
  while (!ring_.empty()) ring_.Delivered(ring_.TakeFront(), "");
  ring_.BeginWait(now_ns_);
  EXPECT_GT(Pass(200, 2).threads, 2);
  demand_.Waited(ring_.EndWait(now_ns_));
}

}  // namespace
}  // namespace millrace::pipeline
