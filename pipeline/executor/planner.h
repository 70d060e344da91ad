#ifndef MILLRACE_PIPELINE_EXECUTOR_PLANNER_H_
#define MILLRACE_PIPELINE_EXECUTOR_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/batch/damage.h"
#include "pipeline/executor/lookahead.h"
#include "pipeline/executor/parts.h"
#include "pipeline/executor/work_item.h"
#include "pipeline/order/order.h"
#include "pipeline/run/kept_records.h"

namespace millrace::pipeline {

// From positions to runs: which samples the order has there, and how many of them make a run.
// Thread-safe, but for Clear, FillIds and IdsOf: one worker at a time evaluates the order,
// mostly in ascending order, and what that needs is kept from call to call.
class Planner {
 public:
  // Borrows both for its lifetime. `preferred_rows`: the number of rows that an op wants at least.
  Planner(const ExecutorParts& parts, RecordKeeper& keeper, int64_t preferred_rows);

  // Forgets what the source was told of; what is planned next may be anywhere. REQUIRES: nothing is
  // planned or read.
  void Clear();

  // Writes the samples of the item's rows into the slab, and tells the source of them. REQUIRES:
  // the batch is not a closed one.
  void FillIds(const PlanItem& item);
  // Returns the samples of a claim, and tells the source of them.
  std::vector<SampleId> IdsOf(const BatchOrder& order, const ScanClaim& claim);

  // Makes `run`, cleared, one of the item's rows from `row` on; counted from its first one. Returns
  // the number of rows.
  int64_t FillRun(const PlanItem& item, int64_t row, RowsRun& run) const;
  // Makes `run`, cleared, one of the samples `ids` of a claim, from `first` on. Returns how many.
  int64_t FillRun(const ScanClaim& claim, std::span<const SampleId> ids, size_t first,
                  ScanRun& run) const;
  // Makes `run`, cleared, the next candidate in place of a damaged row.
  void FillCandidate(const BadRow& bad, OpenBatch& batch, RowsRun& run) const;

  // The records of a run have come, for the first time.
  void NoteRead(RowsRun& run) const { NoteRead(run.position, run.expected_rows); }
  void NoteRead(ScanRun& run) const { NoteRead(run.position, run.expected_rows); }

 private:
  bool TakeKnown(std::span<const SampleId>& ids, ScanRun& run) const;
  void NoteRead(uint64_t position, int64_t& expected_rows) const;
  OrderMemo* MemoOf(const BatchOrder& order);
  int64_t FillOpen(const PlanItem& item, int64_t row, RowsRun& run) const;
  int64_t FillClosed(const PlanItem& item, int64_t row, RowsRun& run) const;

  // Constant after construction.
  const ExecutorParts& parts_;
  const int64_t preferred_rows_;

  RecordKeeper& keeper_;  // synchronises itself
  // Null where nothing is told before it is read. Of the worker that plans, and thread-safe.
  const std::unique_ptr<Lookahead> lookahead_;

  // Owned by the worker that evaluates the order.
  OrderMemo memo_;
  const BatchOrder* memo_order_;  // the order that the memo is of
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_PLANNER_H_
