#ifndef MILLRACE_PIPELINE_STAGES_APPLY_CAUGHT_H_
#define MILLRACE_PIPELINE_STAGES_APPLY_CAUGHT_H_

#include "absl/status/status.h"
#include "base/caught.h"
#include "base/op.h"
#include "pipeline/batch_op.h"

namespace millrace::pipeline {

// Calls op.Apply. Ops of the host program may throw, and nothing may get out of a worker: in a run
// of one row an exception is that row's error (ThrownError: INTERNAL, or RESOURCE_EXHAUSTED for
// memory).
//   false  it threw in a run of several rows; what the run holds is good for nothing. Work on each
//          row by itself, so that only rows that throw alone are bad, however rows are grouped.
bool ApplyCaught(const Op& op, Run& run);
// The same, but in a run of several rows lets the exception through.
void ApplyAlone(const Op& op, Run& run);
// An exception is ThrownError.
absl::Status ApplyCaught(const BatchOp& op, BatchView& batch);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_APPLY_CAUGHT_H_
