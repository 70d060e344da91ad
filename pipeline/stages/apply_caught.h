#ifndef MILLRACE_PIPELINE_STAGES_APPLY_CAUGHT_H_
#define MILLRACE_PIPELINE_STAGES_APPLY_CAUGHT_H_

#include "absl/status/status.h"
#include "base/op.h"
#include "pipeline/batch_op.h"

namespace millrace::pipeline {

// Calls op.Apply. Ops of the host program may throw, and nothing may get out of a worker: in a run
// of one row an exception is that row's INTERNAL error.
//   false  it threw in a run of several rows; what the run holds is good for nothing. Work on each
//          row by itself, so that only rows that throw alone are bad, however rows are grouped.
bool ApplyCaught(const Op& op, Run& run);
// The same, but in a run of several rows lets the exception through.
void ApplyAlone(const Op& op, Run& run);
// An exception is INTERNAL.
absl::Status ApplyCaught(const BatchOp& op, BatchView& batch);
// The exception that is being handled: INTERNAL, "exception: ...".
absl::Status ThrownError();
// Calls `work`; an exception is ThrownError.
template <typename Work>
absl::Status Caught(const Work& work) {
  try {
    work();
    return absl::OkStatus();
  } catch (...) {
    return ThrownError();
  }
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_APPLY_CAUGHT_H_
