#include <algorithm>
#include <chrono>

#include "pipeline/executor/executor.h"

// The executor's side of adapting: what it sees (a few additions at the ends of items, under the
// mutex that is held there anyway), when the adapter is asked (a batch is delivered or ready, a
// worker finds nothing to do, an item ends while the consumer waits), and that it is obeyed at
// once: no item is begun beyond the target, and no batch opened.

namespace millrace::pipeline {

int64_t Executor::Now() const {
  if (parts_.clock) return parts_.clock();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void Executor::BeginWorkLocked(int64_t now_ns) {
  ++busy_;
  work_begins_ += now_ns;
}

void Executor::EndWorkLocked(int64_t begin_ns, int64_t now_ns) {
  --busy_;
  work_begins_ -= begin_ns;
  worked_ns_ += now_ns - begin_ns;
}

void Executor::AdaptLocked() {
  if (!adapting_ || stopped_) return;
  Observation seen;
  seen.now_ns = adapted_ns_ = Now();
  seen.consumer_wait_ns = waited_ns_ + (wait_begins_ < 0 ? 0 : seen.now_ns - wait_begins_);
  seen.busy_ns = worked_ns_ + busy_ * seen.now_ns - work_begins_;
  seen.ready_batches = ready_batches_;
  seen.reserved_bytes = budget_->work_bytes();
  seen.budget_bytes = budget_->work_limit_bytes();
  ObeyLocked(adapter_.Update(seen));
}

void Executor::ObeyLocked(const Targets& targets) {
  const int threads = std::clamp(targets.threads, 1, max_threads_);
  const int ring = std::clamp(targets.ring, 1, parts_.prefetch_batches);
  if (threads == thread_target_ && ring == ring_target_) return;
  counters_.threads.Add(threads - thread_target_);
  counters_.ring.Add(ring - ring_target_);
  thread_target_ = threads;
  ring_target_ = ring;
  WakeWorkersLocked();
}

}  // namespace millrace::pipeline
