#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "base/work/fair_queue.h"

// Memory that runs out while a task is added. This program's operator new fails where the test says.

namespace {

thread_local int left = -1;  // allocations until the first that fails; negative: none does

}  // namespace

void* operator new(size_t size) {
  const bool fails = left == 0;
  if (left > 0) --left;
  void* const memory = fails ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace millrace {
namespace {

// The task is given as it is: the queue's own allocations alone fail.
bool Adds(FairQueue& queue, const std::shared_ptr<TaskGroup>& group, int* ran, int allocations) {
  std::function<void()> task = [ran] { ++*ran; };
  left = allocations;
  bool added = true;
  try {
    queue.Add(group, std::move(task));
  } catch (const std::bad_alloc&) {
    added = false;
  }
  left = -1;
  return added;
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
