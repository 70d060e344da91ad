#ifndef MILLRACE_PIPELINE_EXECUTOR_CHOICE_H_
#define MILLRACE_PIPELINE_EXECUTOR_CHOICE_H_

#include <cstddef>
#include <cstdint>

#include "base/memory_budget.h"
#include "pipeline/executor/demand.h"
#include "pipeline/executor/growth.h"
#include "pipeline/executor/parts.h"
#include "pipeline/executor/pass_one.h"
#include "pipeline/executor/profiler.h"
#include "pipeline/executor/ring.h"
#include "pipeline/executor/run_queues.h"
#include "pipeline/executor/run_sizes.h"
#include "pipeline/executor/work_item.h"

// The executor's choice of the next item. It is the only place that looks at all parts of the
// state, and it takes no lock: the caller holds the executor's mutex.
//
// The order of choices: single reads of a run that could not be read whole; reads that wait for the
// budget; the ops over a filled batch; settling; rows to plan, while too little is on its way; the
// lowest ready run; more rows to plan. Pass 1 comes behind all that: positions to look at, while
// batches are wanted; the lowest ready run.

namespace millrace::pipeline {

// All that the executor's mutex guards and the choice depends on. Thread-compatible.
struct ExecutorState {
  bool stopped = true;  // true if no item is begun
  Ring ring;
  Demand demand;
  RunQueues queues;
  PassOne pass_one;
  Growth growth;
  Profiler profiler;
};

// Immutable, thread-safe; the states that it is given are not.
class Choice {
 public:
  // Borrows both for its lifetime.
  Choice(const ExecutorParts& parts, const RunSizes& sizes);

  // Replaces `item` by the next thing to do; false if there is none now.
  bool Pick(ExecutorState& state, WorkItem& item) const;
  // The number of items that could be begun now. Planning counts as one, since a worker that begins
  // it wakes the next one.
  int64_t NumAvailable(const ExecutorState& state) const;

  // True once every batch was opened.
  bool AtEnd(const ExecutorState& state) const;
  // True if there is a next batch and its rows are known.
  bool HasNext(const ExecutorState& state) const;
  // The bytes of the next batch: its slab, and the state of a cut in its token.
  int64_t NextBatchBytes(const ExecutorState& state) const;
  enum class Admission {
    kYes,
    kWait,
    kHeldByConsumer,  // consumers hold so much that it could never fit
  };
  // A batch may be opened if the budget has room for its slab. The oldest one is opened in any
  // case, so that there is always progress, unless consumers hold too much.
  Admission AdmissionOfNext(const ExecutorState& state) const;
  // The reason for which the next batch is not delivered now.
  WaitCause CauseOfWait(const ExecutorState& state) const;
  // The number of closed batches that may be made now.
  size_t ClosedRoom(const ExecutorState& state) const {
    return state.pass_one.ClosedRoom(state.ring.length());
  }

 private:
  // The number of runs of pass 2, and of blocks of pass 1, that are kept on their way.
  int64_t ReadAhead(const ExecutorState& state) const;
  bool PickUrgent(ExecutorState& state, WorkItem& item) const;
  bool PickSubmit(ExecutorState& state, WorkItem& item) const;
  bool PickPlan(ExecutorState& state, WorkItem& item) const;
  bool PickOpen(ExecutorState& state, WorkItem& item) const;
  bool PickProcess(ExecutorState& state, WorkItem& item) const;
  bool PickScan(ExecutorState& state, WorkItem& item) const;
  bool MayClaimRows(const ExecutorState& state) const;
  bool MayOpen(const ExecutorState& state) const;
  bool MayJoin(const ExecutorState& state, const ProcessItem& item) const;
  bool MayScan(const ExecutorState& state, uint64_t ahead) const;
  uint64_t ScanAhead(const ExecutorState& state) const;
  bool WaitsForBudget(const ExecutorState& state) const;
  bool WaitsForOrder(const ExecutorState& state) const;

  // Constant after construction.
  const ExecutorParts& parts_;
  const RunSizes& sizes_;
  MemoryBudget& budget_;
  const bool has_cut_;  // true if the plan has a cut
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_CHOICE_H_
