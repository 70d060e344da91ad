#include "base/work/fair_queue.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMicrosecond = 1000;
constexpr int64_t kMillisecond = 1000 * kMicrosecond;
constexpr int64_t kSecond = 1000 * kMillisecond;
constexpr int64_t kCredit = 10 * kMillisecond;

// What a group asks of the workers.
struct Load {
  int64_t task_ns = 0;  // in the mean; every third task takes half of it, every third three halves
  int tasks = 0;        // queued or under way at once
};

// Workers under a clock of their own. A group's tasks all do the same: each queues its successor
// before it ends, as a pipeline's do.
class Simulation {
 public:
  explicit Simulation(int num_workers, std::vector<Load> loads)
      : queue_(num_workers * kCredit), workers_(static_cast<size_t>(num_workers)) {
    for (const Load& load : loads) {
      groups_.push_back({load, std::make_shared<TaskGroup>()});
      Begin(groups_.size() - 1);
    }
  }

  void Begin(size_t group) {
    groups_[group].stopped = false;
    for (int i = 0; i < groups_[group].load.tasks; ++i) Add(group);
  }
  // Its tasks under way and those queued are its last.
  void Stop(size_t group) { groups_[group].stopped = true; }

  void Run(int64_t duration_ns) {
    for (Worker& worker : workers_) {
      if (!worker.busy) TakeNext(worker);
    }
    const int64_t end_ns = now_ns_ + duration_ns;
    while (Worker* worker = FirstToEnd()) {
      if (worker->end_ns > end_ns) break;
      now_ns_ = worker->end_ns;
      End(*worker);
    }
    now_ns_ = end_ns;
  }

  // Of tasks that have ended, since the last call.
  std::vector<int64_t> TakeUsed() {
    std::vector<int64_t> used;
    for (Group& group : groups_) used.push_back(std::exchange(group.used_ns, 0));
    return used;
  }

 private:
  struct Group {
    Load load;
    std::shared_ptr<TaskGroup> tasks;
    bool stopped = false;
    int64_t used_ns = 0;
  };
  struct Worker {
    bool busy = false;
    size_t group = 0;
    int64_t end_ns = 0;
    FairQueue::Turn turn;  // what it takes is filled in at once
  };

  void Add(size_t group) {
    queue_.Add(groups_[group].tasks, [this, group] { begun_ = group; });
  }
  void TakeNext(Worker& worker) {
    worker.busy = queue_.size() > 0;
    if (!worker.busy) return;
    worker.turn = queue_.Take();
    worker.turn.task();
    worker.group = begun_;
    worker.turn.spent_ns = groups_[begun_].load.task_ns * (1 + num_begun_++ % 3) / 2;
    worker.end_ns = now_ns_ + worker.turn.spent_ns;
  }
  void End(Worker& worker) {
    Group& group = groups_[worker.group];
    if (!group.stopped) Add(worker.group);
    group.used_ns += worker.turn.spent_ns;
    queue_.End(worker.turn);
    TakeNext(worker);
  }
  Worker* FirstToEnd() {
    Worker* first = nullptr;
    for (Worker& worker : workers_) {
      if (worker.busy && (first == nullptr || worker.end_ns < first->end_ns)) first = &worker;
    }
    return first;
  }

  FairQueue queue_;
  std::vector<Group> groups_;
  std::vector<Worker> workers_;
  int64_t now_ns_ = 0;
  size_t begun_ = 0;  // the group whose task was taken last
  int num_begun_ = 0;
};

TEST(FairQueueTest, TasksOfAGroupBeginInOrder) {
  FairQueue queue(kCredit);
  EXPECT_EQ(queue.size(), 0);
  std::vector<int> begun;
  const auto group = std::make_shared<TaskGroup>();
  for (int i = 0; i < 4; ++i) queue.Add(group, [&begun, i] { begun.push_back(i); });
  while (queue.size() > 0) queue.Take().task();
  EXPECT_THAT(begun, ElementsAre(0, 1, 2, 3));
}

TEST(FairQueueTest, GroupsUseEquallyMuchHoweverLongAndManyTheirTasksAre) {
  const std::vector<std::vector<Load>> worlds = {
      {{400 * kMicrosecond, 16}, {400 * kMicrosecond, 16}},
      {{50 * kMicrosecond, 16}, {5 * kMillisecond, 16}},
      {{50 * kMicrosecond, 16}, {5 * kMillisecond, 160}},
      {{400 * kMicrosecond, 64}, {3 * kMillisecond, 16}, {20 * kMicrosecond, 20}},
      {{kMillisecond, 16}, {kMillisecond, 17}, {kMillisecond, 18}, {20 * kMillisecond, 16}},
  };
  for (const int workers : {1, 2, 3, 4, 16}) {
    for (const std::vector<Load>& loads : worlds) {
      Simulation simulation(workers, loads);
      simulation.Run(2 * kSecond);
      const std::vector<int64_t> used = simulation.TakeUsed();
      int64_t longest_ns = 0;
      for (const Load& load : loads) longest_ns = std::max(longest_ns, load.task_ns);
      const auto [least, most] = std::minmax_element(used.begin(), used.end());
      EXPECT_LE(*most - *least, 2 * workers * longest_ns) << workers << " workers";
      EXPECT_GE(*least * static_cast<int64_t>(used.size()), workers * kSecond * 18 / 10);
    }
  }
}

// Its share is half of the time, and it can use that only if it never waits for the other.
TEST(FairQueueTest, AGroupWithOneTaskAtATimeKeepsAWorkerOfTwo) {
  Simulation simulation(2, {{400 * kMicrosecond, 1}, {3 * kMillisecond, 2}});
  simulation.Run(10 * kSecond);
  const std::vector<int64_t> used = simulation.TakeUsed();
  EXPECT_GE(used[0], 95 * kSecond / 10);
  EXPECT_GE(used[1], 95 * kSecond / 10);
}

TEST(FairQueueTest, WhatAGroupCannotUseIsTheOthers) {
  Simulation simulation(4, {{kMillisecond, 1}, {400 * kMicrosecond, 4}, {5 * kMillisecond, 4}});
  simulation.Run(12 * kSecond);
  const std::vector<int64_t> used = simulation.TakeUsed();
  EXPECT_GE(used[0], 11 * kSecond);
  EXPECT_GE(used[1], 17 * kSecond);
  EXPECT_GE(used[2], 17 * kSecond);
}

TEST(FairQueueTest, TimeThatAGroupHadAloneDoesNotCount) {
  for (const int workers : {1, 2, 4}) {
    Simulation simulation(workers, {{kMillisecond, 4}, {kMillisecond, 4}});
    simulation.Run(kSecond);
    simulation.Stop(1);
    simulation.Run(10 * kSecond);
    simulation.TakeUsed();
    simulation.Begin(1);
    simulation.Run(kSecond);
    const std::vector<int64_t> used = simulation.TakeUsed();
    EXPECT_LE(std::abs(used[1] - used[0]), workers * 4 * kMillisecond) << workers << " workers";
  }
}

TEST(FairQueueTest, AGroupThatWasIdleCatchesUpOnItsCreditOnly) {
  Simulation simulation(4, {{kMillisecond, 4}, {kMillisecond, 1}, {kMillisecond, 3}});
  simulation.Stop(0);
  simulation.Run(10 * kSecond);
  simulation.TakeUsed();
  simulation.Begin(0);
  simulation.Run(kSecond);
  const std::vector<int64_t> used = simulation.TakeUsed();
  EXPECT_LE(used[0] - used[2], 4 * (kCredit + 4 * kMillisecond));
  EXPECT_GE(used[1], 9 * kSecond / 10);
}

// A task that turns out longer than its group's last is paid for afterwards.
TEST(FairQueueTest, ALongTaskIsPaidForWhenItHasEnded) {
  FairQueue queue(kCredit);
  const auto one = std::make_shared<TaskGroup>(), other = std::make_shared<TaskGroup>();
  for (int i = 0; i < 40; ++i) {
    queue.Add(one, [] {});
    queue.Add(other, [] {});
  }
  const auto take = [&](int64_t spent_ns) {
    FairQueue::Turn turn = queue.Take();
    EXPECT_TRUE(turn.counts);
    turn.spent_ns = spent_ns;
    queue.End(turn);
    return turn.group;
  };
  EXPECT_EQ(take(10 * kMillisecond), one);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(take(kMillisecond), other);
}

TEST(FairQueueTest, WorkersThatComeAtOnceAreDividedAmongTheGroups) {
  FairQueue queue(kCredit);
  const auto one = std::make_shared<TaskGroup>(), other = std::make_shared<TaskGroup>();
  for (int i = 0; i < 20; ++i) {
    queue.Add(one, [] {});
    queue.Add(other, [] {});
  }
  for (int i = 0; i < 2; ++i) {
    FairQueue::Turn turn = queue.Take();
    turn.spent_ns = kMillisecond;
    queue.End(turn);
  }
  int of_one = 0;
  for (int i = 0; i < 16; ++i) of_one += queue.Take().group == one ? 1 : 0;
  EXPECT_EQ(of_one, 8);
}

}  // namespace
}  // namespace millrace
