#ifndef MILLRACE_PIPELINE_EXAMINER_INTERNAL_H_
#define MILLRACE_PIPELINE_EXAMINER_INTERNAL_H_

#include <span>
#include <vector>

#include "base/run.h"
#include "pipeline/physical_plan_internal.h"
#include "pipeline/settler_internal.h"

namespace millrace::pipeline {

// Pass 1 over a run: applies the ops that filters, unbatch and extents need, and says what becomes
// of each row. Decodes nothing that a filter drops. Immutable, thread-safe; borrows the plan.
class Examiner {
 public:
  explicit Examiner(const CutPlan& plan);

  // REQUIRES: the run holds the source's columns ("record"); rows that could not be read are
  // failed. `origins` are its rows' places in their lane, ascending. Fills rows, extents and errors
  // of `found` (append); an error is annotated with its stage.
  void Examine(Run& run, std::span<const RowOrigin> origins, Examined* found) const;
  size_t extents_per_row() const;

 private:
  const CutPlan& plan_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXAMINER_INTERNAL_H_
