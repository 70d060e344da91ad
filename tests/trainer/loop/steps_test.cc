#include "trainer/loop/steps.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/messages.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;

Job JobOf(uint32_t epochs, uint32_t accumulate, uint64_t steps_per_epoch = 0) {
  Job job;
  job.set_epochs(epochs);
  job.set_steps_per_epoch(steps_per_epoch);
  job.mutable_reduction()->set_accumulate_steps(accumulate);
  return job;
}

std::vector<uint64_t> BatchesOf(const StepPlan& plan) {
  std::vector<uint64_t> batches;
  for (uint64_t step = 0; step < plan.total_steps; ++step) batches.push_back(plan.BatchesOf(step));
  return batches;
}

constexpr pipeline::StreamLength kEndless{.infinite = true, .batches_per_epoch = 5};

TEST(StepsTest, ABatchIsAStepUnlessTheJobSaysMore) {
  const auto plan = PlanSteps(JobOf(2, 1), kEndless);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->steps_per_epoch, 5u);
  EXPECT_THAT(BatchesOf(*plan), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
}

TEST(StepsTest, TheLastStepOfAnEpochHasWhatIsLeft) {
  const auto plan = PlanSteps(JobOf(2, 2), kEndless);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->steps_per_epoch, 3u);
  EXPECT_THAT(BatchesOf(*plan), ElementsAre(2, 2, 1, 2, 2, 1));
}

TEST(StepsTest, AStepHasNoMoreBatchesThanAnEpoch) {
  const auto plan = PlanSteps(JobOf(2, 1000), kEndless);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->accumulate, 5u);
  EXPECT_EQ(plan->steps_per_epoch, 1u);
  EXPECT_THAT(BatchesOf(*plan), ElementsAre(5, 5));
}

TEST(StepsTest, AStreamThatEndsInAnEpochGivesItsLastBatches) {
  const auto plan = PlanSteps(JobOf(0, 2), {.batches = 8, .batches_per_epoch = 5});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(BatchesOf(*plan), ElementsAre(2, 2, 1, 2, 1));
}

TEST(StepsTest, StepsOfAGivenNumberPerEpochAreAllWhole) {
  const auto plan = PlanSteps(JobOf(2, 3, 2), {.infinite = true});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(BatchesOf(*plan), ElementsAre(3, 3, 3, 3));
}

TEST(StepsTest, MoreBatchesThanThereAreAreRefused) {
  const auto plan = PlanSteps(JobOf(3, 2), {.batches = 14, .batches_per_epoch = 5});
  EXPECT_MESSAGE(plan.status(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(PlanSteps(JobOf(3, 2), {.batches = 15, .batches_per_epoch = 5}).ok());
}

TEST(StepsTest, MoreBatchesThanCanBeCountedAreRefused) {
  EXPECT_FALSE(PlanSteps(JobOf(1 << 13, 1 << 20, uint64_t{1} << 40), kEndless).ok());
}

}  // namespace
}  // namespace millrace::trainer
