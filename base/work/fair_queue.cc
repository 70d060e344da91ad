#include "base/work/fair_queue.h"

#include <algorithm>
#include <utility>

namespace millrace {

void FairQueue::Add(const std::shared_ptr<TaskGroup>& group, std::function<void()> task) {
  // Calls that may throw come first, and change nothing then.
  const bool waits = !group->tasks_.empty();
  if (!waits && waiting_.size() == waiting_.capacity()) waiting_.reserve(2 * waiting_.size() + 1);
  group->tasks_.push_back(std::move(task));
  ++size_;
  if (waits) return;
  if (group->under_way_ == 0) ++busy_groups_;
  group->used_ns_ = std::max(group->used_ns_, clock_ns_ - credit_ns_);
  waiting_.push_back(group);
}

FairQueue::Turn FairQueue::Take() {
  const auto least =
      std::min_element(waiting_.begin(), waiting_.end(),
                       [](const auto& a, const auto& b) { return a->used_ns_ < b->used_ns_; });
  Turn turn;
  turn.group = *least;
  TaskGroup& group = *turn.group;
  turn.task = std::move(group.tasks_.front());
  group.tasks_.pop_front();
  if (group.tasks_.empty()) waiting_.erase(least);
  --size_;
  ++group.under_way_;
  clock_ns_ = std::max(clock_ns_, group.used_ns_);
  turn.counts = busy_groups_ > 1;
  if (turn.counts) turn.charged_ns = group.last_ns_;
  group.used_ns_ += turn.charged_ns;
  return turn;
}

void FairQueue::End(const Turn& turn) {
  TaskGroup& group = *turn.group;
  if (--group.under_way_ == 0 && group.tasks_.empty()) --busy_groups_;
  if (!turn.counts) return;
  group.used_ns_ += turn.spent_ns - turn.charged_ns;
  group.last_ns_ = turn.spent_ns;
}

}  // namespace millrace
