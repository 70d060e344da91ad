#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <utility>

#include "base/work/fair_queue.h"
#include "tests/failing_new.h"

// Memory that ends while a task is added.

namespace millrace {
namespace {

// The task is made before: the queue's own allocations alone fail.
bool Adds(FairQueue& queue, const std::shared_ptr<TaskGroup>& group, int* ran, int allocations) {
  std::function<void()> task = [ran] { ++*ran; };
  const AllocationsLeft left(allocations);
  try {
    queue.Add(group, std::move(task));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

TEST(FairQueueMemoryTest, ATaskThatCannotBeAddedLeavesTheQueueAsItWas) {
  bool failed = false;
  for (int allocations = 0;; ++allocations) {
    FairQueue queue(1000);
    const auto group = std::make_shared<TaskGroup>();
    int ran = 0;
    int added = 0;
    // Enough for a second node of the group's tasks.
    for (int i = 0; i < 100; ++i) added += Adds(queue, group, &ran, allocations) ? 1 : 0;
    ASSERT_EQ(queue.size(), added);
    ASSERT_TRUE(Adds(queue, group, &ran, -1));
    while (queue.size() > 0) {
      FairQueue::Turn turn = queue.Take();
      ASSERT_TRUE(turn.task) << allocations;
      turn.task();
      queue.End(turn);
    }
    EXPECT_EQ(ran, added + 1);
    failed = failed || added < 100;
    if (added == 100) break;
  }
  EXPECT_TRUE(failed);
}

}  // namespace
}  // namespace millrace
