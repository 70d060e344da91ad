#ifndef MILLRACE_PIPELINE_CUT_EXAMINER_H_
#define MILLRACE_PIPELINE_CUT_EXAMINER_H_

#include <cstddef>
#include <span>
#include <vector>

#include "base/run.h"
#include "pipeline/cut/settler.h"
#include "pipeline/plan/physical.h"

namespace millrace::pipeline {

// Pass 1 over a run: applies the ops that filters, unbatch and extents need, and says of each row
// whether it is kept. No op works on a row that a filter has dropped. Immutable, thread-safe.
class Examiner {
 public:
  // Borrows the plan for its lifetime. REQUIRES: plan.cut; at most one step is kUnbatch; the fields
  // of cut->extents_of are in the batch schema, which knows their ranks.
  explicit Examiner(const PhysicalPlan& plan);

  // REQUIRES: the run holds the source's columns ("record"); rows that could not be read are
  // failed. `positions` are those of its rows in their lane, ascending; empty: the run's own.
  // Appends to rows, extents and errors of `found`, in order of position and sub-index. Rows
  // dropped by a filter are among them only where a settle step stands before that filter. A row
  // with an error counts as kept (passed_filters is num_filters), its extents are 0, and its error
  // is annotated with the stage and has no position. An exception of an op leaves this function,
  // unless the op works on one row, whose error it then is: examine each record by itself.
  void Examine(Run& run, std::span<const uint64_t> positions, Examined* found) const;
  // The number of Examined::extents of each row: the ranks of extents_of, added up, and one more
  // for the value of value_of.
  size_t extents_per_row() const { return extents_per_row_; }

 private:
  const CutPlan& plan_;
  std::vector<int> extent_ranks_;  // the ranks of extents_of
  size_t extents_per_row_ = 0;
  int first_settled_filter_ = 0;  // rows that pass fewer filters are forgotten
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_EXAMINER_H_
