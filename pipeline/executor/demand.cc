#include "pipeline/executor/demand.h"

#include <algorithm>

namespace millrace::pipeline {
namespace {

constexpr int64_t kDemandLookNanoseconds = 1'000'000;  // between two looks while the consumer waits

}  // namespace

Goals Demand::Clamp(const Goals& goals) const {
  return {.threads = std::clamp(goals.threads, 1, limits_.threads),
          .ring = std::clamp(goals.ring, 1, limits_.ring)};
}

int Demand::SetThreadLimit(int threads) {
  limits_.threads = std::clamp(threads, 1, most_threads_);
  adapter_.SetThreadLimit(limits_.threads);
  return adapts_ ? adapter_.goals().threads : limits_.threads;
}

bool Demand::LookIsDue(int64_t now_ns) const {
  return now_ns - looked_ns_ >= kDemandLookNanoseconds;
}

Goals Demand::Look(int64_t now_ns, const Ring& ring, const MemoryBudget& budget) {
  looked_ns_ = now_ns;
  Observation seen;
  seen.now_ns = now_ns;
  seen.consumer_wait_ns = waited_ns_ + (ring.consumer_waits() ? now_ns - ring.wait_begins_ns() : 0);
  seen.busy_ns = worked_ns_ + busy_ * now_ns - work_begins_ns_;
  seen.ready_batches = ring.num_ready();
  seen.reserved_bytes = budget.work_bytes();
  seen.budget_bytes = budget.work_limit_bytes();
  return adapter_.Update(seen);
}

}  // namespace millrace::pipeline
