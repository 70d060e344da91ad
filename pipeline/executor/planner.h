#ifndef MILLRACE_PIPELINE_EXECUTOR_PLANNER_H_
#define MILLRACE_PIPELINE_EXECUTOR_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/batch/damage.h"
#include "pipeline/executor/parts.h"
#include "pipeline/executor/work_item.h"
#include "pipeline/order/order.h"
#include "pipeline/run/kept_records.h"

namespace millrace::pipeline {

// From positions to runs: which samples the order has there, and how many of them make a run.
// Thread-safe, but for FillIds and IdsOf: one worker at a time evaluates the order, mostly in
// ascending order, and what that needs is kept from call to call.
class Planner {
 public:
  // Borrows both for its lifetime. `preferred_rows`: the number of rows that an op wants at least.
  Planner(const ExecutorParts& parts, RecordKeeper& keeper, int64_t preferred_rows);

  // Writes the samples of the item's rows into the slab. REQUIRES: the batch is not a closed one.
  void FillIds(const PlanItem& item);
  // Returns the samples of a claim.
  std::vector<SampleId> IdsOf(const BatchOrder& order, const ScanClaim& claim);

  // Makes `run`, cleared, one of the item's rows from `row` on; counted from its first one. Returns
  // the number of rows.
  int64_t FillRun(const PlanItem& item, int64_t row, RowsRun& run) const;
  // Makes `run`, cleared, one of the samples `ids` of a claim, from `first` on. Returns how many.
  int64_t FillRun(const ScanClaim& claim, std::span<const SampleId> ids, size_t first,
                  ScanRun& run) const;
  // Makes `run`, cleared, the next candidate in place of a damaged row.
  void FillCandidate(const BadRow& bad, OpenBatch& batch, RowsRun& run) const;

 private:
  OrderMemo* MemoOf(const BatchOrder& order);
  int64_t FillOpen(const PlanItem& item, int64_t row, RowsRun& run) const;
  int64_t FillClosed(const PlanItem& item, int64_t row, RowsRun& run) const;

  // Constant after construction.
  const ExecutorParts& parts_;
  const int64_t preferred_rows_;

  RecordKeeper& keeper_;  // synchronises itself

  // Owned by the worker that evaluates the order.
  OrderMemo memo_;
  const BatchOrder* memo_order_;  // the order that the memo is of
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_PLANNER_H_
