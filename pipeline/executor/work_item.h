#ifndef MILLRACE_PIPELINE_EXECUTOR_WORK_ITEM_H_
#define MILLRACE_PIPELINE_EXECUTOR_WORK_ITEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "base/memory_budget.h"
#include "pipeline/batch/data.h"
#include "pipeline/cut/scan_board.h"
#include "pipeline/cut/settler.h"
#include "pipeline/order/order.h"
#include "pipeline/run/work.h"

// What the executor hands from worker to worker: items, and the queues that runs wait in.

namespace millrace::pipeline {

// A closed batch of a plan with a cut, ready to be opened.
struct ClosedWork {
  ClosedWork(ClosedBatch batch_in, MemoryBudget& budget);
  ~ClosedWork();
  ClosedWork(const ClosedWork&) = delete;
  ClosedWork& operator=(const ClosedWork&) = delete;

  ClosedBatch batch;
  MemoryBudget& budget;
  const int64_t reserved_bytes;  // in it
  std::shared_ptr<const BatchLayout> layout;
  absl::Status layout_error;  // then there is no layout
};

inline constexpr size_t kMostRuns = 8;  // of an item

// What a worker does next.
struct WorkItem {
  enum class Kind {
    kNone,
    kOpen,     // the batch `batch_index`, or the closed batch
    kPlan,     // rows [first_row, first_row + num_rows) of `batch`
    kSubmit,   // reads of `run`
    kProcess,  // `runs`, which are of `batch`
    kFinish,   // the ops over the whole of `batch`
    kScan,     // plan pass 1 of `claim`
    kExamine,  // `run`, in pass 1
    kSettle,
  };
  Kind kind = Kind::kNone;
  uint64_t batch_index = 0;
  const BatchOrder* order = nullptr;  // kOpen, without a cut; kScan
  std::unique_ptr<ClosedWork> closed;
  std::unique_ptr<OpenBatch> blank;  // kOpen; null: none was idle
  int64_t reserved_bytes = 0;        // kOpen
  OpenBatch* batch = nullptr;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  RunWork* run = nullptr;
  absl::InlinedVector<RunWork*, kMostRuns> runs;  // kPlan, kScan: idle ones, to be made
  std::unique_ptr<RunScratch> scratch;            // kProcess, kExamine; null: none was idle
  ScanClaim claim;
};

struct LaterRun {
  bool operator()(const RunWork* a, const RunWork* b) const { return a->position > b->position; }
};
using RunQueue = std::priority_queue<RunWork*, std::vector<RunWork*>, LaterRun>;

// The runs of one pass on their way, from planning to their end.
struct RunPass {
  RunQueue waiting;  // for the budget
  RunQueue ready;
  int64_t unfinished = 0;
  int64_t admitted = 0;  // of them, those with a place in the budget
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_WORK_ITEM_H_
