#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include "base/metric_table.h"

namespace millrace {
namespace {

std::shared_ptr<MemoryBudget> MakeBudget(int64_t limit) {
  return std::make_shared<MemoryBudget>(limit, std::make_shared<Metrics>());
}

TEST(MemoryBudget, WorkHasTheLimitLessWhatStands) {
  const auto budget = MakeBudget(1600);
  {
    const StandingMemory index(budget, 600);
    EXPECT_EQ(budget->work_limit_bytes(), 1000);
    EXPECT_FALSE(budget->TryReserve(1001));
    EXPECT_TRUE(budget->TryReserve(1000));
    EXPECT_FALSE(budget->Fits(1));
    EXPECT_EQ(budget->reserved_bytes(), 1600);
    EXPECT_EQ(budget->work_bytes(), 1000);
  }
  EXPECT_TRUE(budget->Fits(600));
  EXPECT_EQ(budget->standing_bytes(), 0);
}

TEST(MemoryBudget, WorkHasASixteenthHoweverMuchStands) {
  const auto budget = MakeBudget(1600);
  const StandingMemory index(budget, 1599);
  const StandingMemory slots(budget, 5000);
  EXPECT_EQ(budget->work_limit_bytes(), 100);
  EXPECT_TRUE(budget->TryReserve(100));
  EXPECT_FALSE(budget->TryReserve(1));
}

TEST(MemoryBudget, HeldBatchesAreJudgedByTheRoomForWork) {
  const auto budget = MakeBudget(1600);
  const StandingMemory index(budget, 600);
  EXPECT_FALSE(budget->HeldLeavesNoRoomFor(5000));  // nobody holds any
  budget->Reserve(700);
  budget->Hold(700);
  EXPECT_FALSE(budget->HeldLeavesNoRoomFor(300));
  EXPECT_TRUE(budget->HeldLeavesNoRoomFor(301));
}

TEST(MemoryBudget, TheGaugeShowsWorkAndWhatStands) {
  const auto metrics = std::make_shared<Metrics>();
  const auto budget = std::make_shared<MemoryBudget>(1600, metrics);
  budget->Reserve(7);
  const StandingMemory index(budget, 600);
  EXPECT_EQ(metrics->gauge(metric::kMemoryReserved).value(), 607);
}

TEST(MemoryBudget, StandingMemoryWithoutABudgetCountsNothing) {
  const StandingMemory slots(nullptr, 600);
}

}  // namespace
}  // namespace millrace
