#ifndef MILLRACE_PIPELINE_EXECUTOR_DEMAND_H_
#define MILLRACE_PIPELINE_EXECUTOR_DEMAND_H_

#include <cstdint>

#include "base/memory_budget.h"
#include "pipeline/executor/adapter.h"
#include "pipeline/executor/ring.h"

namespace millrace::pipeline {

// How much the consumer needs: the threads at work, what they and the consumer spent their time on,
// and what the adapter makes of it. Costs a few additions at the ends of items. Thread-compatible;
// the executor's mutex guards it.
class Demand {
 public:
  // `limits`: the most threads and open batches; begins there. `adapts`: false if nothing moves
  // unless SetGoals says so.
  Demand(const Goals& limits, bool adapts)
      : most_threads_(limits.threads),
        limits_(limits),
        threads_(limits.threads),
        adapts_(adapts),
        adapter_(limits) {}

  // The most workers that may execute items at once.
  int threads() const { return threads_; }
  void SetThreads(int threads) { threads_ = threads; }
  Goals Clamp(const Goals& goals) const;
  // The most that `threads` may be now.
  int thread_limit() const { return limits_.threads; }
  // Moves that limit, within [1, that of the constructor]. Returns the threads to use now.
  int SetThreadLimit(int threads);
  // The workers that execute an item.
  int busy() const { return busy_; }

  void BeginWork(int64_t now_ns) {
    ++busy_;
    work_begins_ns_ += now_ns;
  }
  void EndWork(int64_t begin_ns, int64_t now_ns) {
    --busy_;
    work_begins_ns_ -= begin_ns;
    worked_ns_ += now_ns - begin_ns;
  }
  // The consumer has waited so long.
  void Waited(int64_t nanoseconds) { waited_ns_ += nanoseconds; }

  // Adapting.
  bool adapts() const { return adapts_; }
  void StopAdapting() { adapts_ = false; }
  // True if the adapter was not asked for a millisecond.
  bool LookIsDue(int64_t now_ns) const;
  // Tells the adapter the numbers of now and returns the goals that it wants.
  Goals Look(int64_t now_ns, const Ring& ring, const MemoryBudget& budget);

 private:
  // Constant after construction.
  const int most_threads_;

  Goals limits_;
  int threads_;
  int busy_ = 0;
  bool adapts_;                 // true if the adapter is asked
  int64_t looked_ns_ = 0;       // the time when the adapter was last asked
  int64_t worked_ns_ = 0;       // the time of all workers in items that have ended
  int64_t work_begins_ns_ = 0;  // the times at which the items under way began, added up
  int64_t waited_ns_ = 0;       // the time of the consumer in waits that have ended
  Adapter adapter_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_DEMAND_H_
