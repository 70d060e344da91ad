#include "base/workers.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace millrace {
namespace {

TEST(Workers, EveryTaskRunsOnceAndTheDestructorWaits) {
  for (int threads : {1, 2, 8}) {
    std::vector<int> runs(2000);  // plain ints: each is touched by one task, then read after join
    {
      Workers workers(threads, /*batch_priority=*/false);
      EXPECT_EQ(workers.num_threads(), threads);
      for (int& run : runs) workers.Enqueue([&run] { ++run; });
    }
    for (int run : runs) ASSERT_EQ(run, 1);
  }
}

TEST(Workers, WithoutTasksTheyAreReadyAndEnd) {
  const Workers workers(2, /*batch_priority=*/false);
  EXPECT_EQ(workers.num_threads(), 2);
}

TEST(Workers, TasksMayEnqueueTasksAndTheDestructorWaitsForThoseToo) {
  std::atomic<int> runs = 0;
  std::function<void(int)> spawn;  // outlives the workers, whose tasks call it
  {
    Workers workers(2, /*batch_priority=*/false);
    spawn = [&](int depth) {
      runs.fetch_add(1);
      if (depth == 0) return;
      for (int child = 0; child < 2; ++child) workers.Enqueue([&, depth] { spawn(depth - 1); });
    };
    workers.Enqueue([&] { spawn(9); });
  }
  EXPECT_EQ(runs.load(), (1 << 10) - 1);
}

TEST(Workers, ManyThreadsMayEnqueueAtOnce) {
  constexpr int kProducers = 4, kTasks = 500;
  std::atomic<int> runs = 0;
  {
    Workers workers(2, /*batch_priority=*/false);
    std::vector<std::jthread> producers;
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back([&] {
        for (int i = 0; i < kTasks; ++i) workers.Enqueue([&runs] { runs.fetch_add(1); });
      });
    }
  }
  EXPECT_EQ(runs.load(), kProducers * kTasks);
}

TEST(Workers, WhatHappenedBeforeEnqueueIsVisibleToTheTask) {
  Mutex mu;
  CondVar done;
  int64_t sum = 0;
  int finished = 0;
  Workers workers(4, /*batch_priority=*/false);
  for (int i = 0; i < 200; ++i) {
    auto plain = std::make_shared<std::vector<int>>(100, i);  // written here, read by the task
    workers.Enqueue([&, plain] {
      int64_t mine = 0;
      for (int value : *plain) mine += value;
      MutexLock lock(mu);
      sum += mine;
      ++finished;
      done.NotifyAll();
    });
  }
  MutexLock lock(mu);
  while (finished < 200) done.Wait(mu);
  EXPECT_EQ(sum, int64_t{100} * 199 * 200 / 2);
}

// Holds the only worker until everything is queued.
TEST(Workers, ATaskDoesNotWaitForAllThatAnotherGroupHasQueued) {
  std::vector<int> begun;
  std::latch queued(1);
  {
    Workers workers(1, /*batch_priority=*/false);
    workers.Enqueue([&] { queued.wait(); });
    const auto many = workers.MakeGroup(), one = workers.MakeGroup();
    for (int i = 0; i < 1000; ++i) workers.Enqueue(many, [&begun, i] { begun.push_back(i); });
    workers.Enqueue(one, [&begun] { begun.push_back(-1); });
    queued.count_down();
  }
  ASSERT_EQ(begun.size(), 1001u);
  EXPECT_NE(begun.back(), -1);
  std::erase(begun, -1);
  EXPECT_TRUE(std::is_sorted(begun.begin(), begun.end()));
}

TEST(Workers, AGroupMayOutliveThem) {
  std::shared_ptr<TaskGroup> group;
  bool ran = false;
  {
    Workers workers(2, /*batch_priority=*/false);
    group = workers.MakeGroup();
    workers.Enqueue(group, [&ran] { ran = true; });
  }
  EXPECT_TRUE(ran);
  group.reset();
}

TEST(Workers, CapturesAreDestroyedBeforeTheDestructorReturns) {
  auto token = std::make_shared<int>(1);
  {
    Workers workers(2, /*batch_priority=*/false);
    for (int i = 0; i < 100; ++i) workers.Enqueue([token] { (void)*token; });
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Workers, BatchPriorityRunsTasksAsSchedBatch) {
  std::atomic<int> policy = -1;
  {
    Workers workers(2, /*batch_priority=*/true);
    workers.Enqueue([&] { policy = sched_getscheduler(0); });
  }
  EXPECT_EQ(policy.load(), SCHED_BATCH);
  {
    Workers workers(2, /*batch_priority=*/false);
    workers.Enqueue([&] { policy = sched_getscheduler(0); });
  }
  EXPECT_EQ(policy.load(), SCHED_OTHER);
}

cpu_set_t CoresOfThisThread() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  return cores;
}

int FirstOf(const cpu_set_t& cores) {
  int core = 0;
  while (!CPU_ISSET(core, &cores)) ++core;
  return core;
}

// The first worker is held, so that the second task starts another thread, from one that is bound.
TEST(Workers, ThreadsHaveTheCoresOfWhoeverMadeThemNotOfWhoeverBringsATask) {
  const cpu_set_t all = CoresOfThisThread();
  cpu_set_t seen;
  CPU_ZERO(&seen);
  std::latch done(1);
  {
    Workers workers(2, /*batch_priority=*/false);
    workers.Enqueue([&] { done.wait(); });
    const std::jthread bound([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(FirstOf(all), &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      workers.Enqueue([&] {
        seen = CoresOfThisThread();
        done.count_down();
      });
    });
  }
  EXPECT_TRUE(CPU_EQUAL(&seen, &all));
}

// The threads of one set are not taken from the other's: a task of each is under way at once.
TEST(Workers, EverySetOfWorkersHasThreadsOfItsOwn) {
  Mutex mu;
  CondVar changed;
  int under_way = 0, met = 0;
  const auto meet = [&] {
    MutexLock lock(mu);
    ++under_way;
    changed.NotifyAll();
    while (under_way < 2 && changed.WaitFor(mu, std::chrono::seconds(30))) {
    }
    met += under_way == 2 ? 1 : 0;
  };
  {
    Workers first(1, /*batch_priority=*/false);
    Workers second(1, /*batch_priority=*/false);
    first.Enqueue(meet);
    second.Enqueue(meet);
  }
  MutexLock lock(mu);
  EXPECT_EQ(met, 2);
}

TEST(Workers, TwoSetsOfWorkersLiveSideBySide) {
  std::atomic<int> runs = 0;
  {
    Workers first(1, /*batch_priority=*/false);
    Workers second(3, /*batch_priority=*/false);
    for (int i = 0; i < 300; ++i) {
      first.Enqueue([&] { runs.fetch_add(1); });
      second.Enqueue([&] { runs.fetch_add(1); });
    }
  }
  EXPECT_EQ(runs.load(), 600);
}

}  // namespace
}  // namespace millrace
