#ifndef MILLRACE_BASE_WORK_FAIR_QUEUE_H_
#define MILLRACE_BASE_WORK_FAIR_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/workers.h"

// The choice of the task that a worker takes next.
//
// Several pipelines share the workers of a Context. First in, first out gives them equally many
// tasks, not equal time, and more to the one that queues more. So time is counted, as in start-time
// fair queuing (Goyal, Vin, Cheng 1996): each group of tasks has used some processor time, and the
// group that has used least is next.
//
//   begun   A task is charged as much as its group's last one when it begins, and the rest when it
//           ends. Else all workers that come while a long task runs would take its group.
//   alone   While no other group has tasks nothing is counted: asking for a thread's processor time
//           is a system call (0.8 us on a virtual machine).
//   idle    The clock is the time that the group of the task begun last had used before. A group
//           without queued tasks may fall behind the clock by a credit, no more: neither a new
//           group nor one whose consumer paused keeps the others waiting until it has caught up.
//           Without credit a group of one task at a time would lose a turn after each wait.
//
// So groups that always have tasks queued never differ by more than about two tasks per worker,
// however long they run.

namespace millrace {

class TaskGroup {
 private:
  friend class FairQueue;
  std::deque<std::function<void()>> tasks_;
  int under_way_ = 0;  // tasks begun that have not ended
  int64_t used_ns_ = 0;
  int64_t last_ns_ = 0;  // time of the task that ended last
};

// Has no thread, no lock and no clock of its own. Thread-compatible, with all of its groups.
class FairQueue {
 public:
  // A task that is under way. Owns it, and shares its group.
  struct Turn {
    std::function<void()> task;
    std::shared_ptr<TaskGroup> group;
    bool counts = false;  // true if another group has tasks too
    int64_t charged_ns = 0;
    int64_t spent_ns = 0;  // set by the caller, if `counts`
  };

  explicit FairQueue(int64_t credit_ns) : credit_ns_(credit_ns) {}

  int64_t size() const { return size_; }  // tasks queued
  // Behind the group's other tasks. If there is no memory for it, it throws and changes nothing.
  void Add(const std::shared_ptr<TaskGroup>& group, std::function<void()> task);
  // Takes the first task of the group that has used least. REQUIRES: size() > 0.
  Turn Take();
  // The task of `turn` has ended.
  void End(const Turn& turn);

 private:
  const int64_t credit_ns_;
  std::vector<std::shared_ptr<TaskGroup>> waiting_;  // groups that have tasks
  int64_t size_ = 0;
  int busy_groups_ = 0;  // groups with tasks queued or under way
  int64_t clock_ns_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_WORK_FAIR_QUEUE_H_
