#include <gtest/gtest.h>

#include <vector>

#include "pipeline/executor/run_queues.h"
#include "tests/failing_new.h"

// A run whose bytes have come, or whose item has ended, is put away on a thread that nothing may
// get out of: so that takes no memory.

namespace millrace::pipeline {
namespace {

constexpr size_t kRuns = 100;

TEST(RunQueuesMemoryTest, RunsArePutAwayWithoutMemory) {
  PassRuns<RowsRun> pass;
  std::vector<RowsRun*> runs;
  for (size_t i = 0; i < kRuns; ++i) {
    runs.push_back(pass.Take());
    runs.back()->position = kRuns - i;
  }
  const AllocationsLeft none(0);
  for (RowsRun* const run : runs) pass.PutReady(run);
  for (size_t i = 1; i <= kRuns; ++i) {
    RowsRun* const run = pass.TakeReady();
    ASSERT_EQ(run->position, i);
    pass.PutRetry(run);
  }
  for (size_t i = 0; i < kRuns; ++i) pass.PutWaiting(pass.TakeRetry());
  for (size_t i = 1; i <= kRuns; ++i) {
    ASSERT_EQ(pass.first_waiting().position, i);
    pass.GiveBack(pass.TakeWaiting());
  }
  for (size_t i = 0; i < kRuns; ++i) EXPECT_NE(pass.Take(), nullptr);
}

}  // namespace
}  // namespace millrace::pipeline
