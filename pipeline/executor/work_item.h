#ifndef MILLRACE_PIPELINE_EXECUTOR_WORK_ITEM_H_
#define MILLRACE_PIPELINE_EXECUTOR_WORK_ITEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "pipeline/cut/scan_board.h"
#include "pipeline/executor/closed_work.h"
#include "pipeline/executor/scan_run.h"
#include "pipeline/order/order.h"
#include "pipeline/run/open_batch.h"
#include "pipeline/run/processor.h"
#include "pipeline/run/rows_run.h"

// The items that a worker may do next. Each is chosen under the executor's mutex, done without it,
// and ends without waiting for another.

namespace millrace::pipeline {

inline constexpr size_t kMostRuns = 8;  // the most runs of an item
template <typename Run>
using RunList = absl::InlinedVector<Run*, kMostRuns>;

// A batch of a plan without a cut: its rows are arithmetic.
struct NextBatch {
  const BatchOrder* order = nullptr;
  uint64_t index = 0;
};

// Opens a batch: takes its slab and puts it into the ring.
struct OpenItem {
  std::variant<NextBatch, std::unique_ptr<ClosedWork>> batch;
  std::unique_ptr<OpenBatch> blank;  // a batch to use again; null: none was idle
  int64_t reserved_bytes = 0;        // the bytes reserved in the budget for the batch
};

// Plans rows [first_row, first_row + num_rows) of a batch: which records they are, and in what runs
// they are worked on.
struct PlanItem {
  OpenBatch* batch = nullptr;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t rows_per_run = 0;  // the most rows of a run
  RunList<RowsRun> idle;     // runs to make use of; more are asked for if there are too few
};

// Begins the reads of a run.
template <typename Run>
struct SubmitItem {
  Run* run = nullptr;
};

// The times of work on rows.
struct WorkTimes {
  int64_t rows = 0;
  int64_t ns = 0;
  // The part that was measured in both clocks, and the processor time in it.
  int64_t clocked_ns = 0;
  int64_t clocked_cpu_ns = 0;
};

// Works on runs of one batch.
struct ProcessItem {
  OpenBatch* batch = nullptr;
  int64_t num_rows = 0;  // the rows of all runs
  RunList<RowsRun> runs;
  std::unique_ptr<RunScratch> scratch;  // null: none was idle
  WorkTimes times;                      // of the work that was done
};

// Mends the damaged rows of a batch whose rows have all landed, and applies the ops over the whole
// of it.
struct FinishItem {
  OpenBatch* batch = nullptr;
};

// Plans pass 1 of a claim.
struct ScanItem {
  const BatchOrder* order = nullptr;
  ScanClaim claim;
  RunList<ScanRun> idle;  // runs to make use of, as in PlanItem
};

// Looks at the records of a run of pass 1.
struct ExamineItem {
  ScanRun* run = nullptr;
  std::unique_ptr<RunScratch> scratch;  // null: none was idle
};

// Tells the settler the findings, and takes the batches that this closes.
struct SettleItem {};

// std::monostate: nothing.
using WorkItem =
    std::variant<std::monostate, OpenItem, PlanItem, SubmitItem<RowsRun>, SubmitItem<ScanRun>,
                 ProcessItem, FinishItem, ScanItem, ExamineItem, SettleItem>;

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_WORK_ITEM_H_
