#include "pipeline/stages/apply_caught.h"

namespace millrace::pipeline {

void ApplyAlone(const Op& op, Run& run) {
  try {
    op.Apply(run);
  } catch (...) {
    if (run.num_rows() > 1) throw;
    if (run.num_rows() == 1 && run.ok(0)) run.Fail(0, ThrownError());
  }
}

bool ApplyCaught(const Op& op, Run& run) {
  return Caught([&] { ApplyAlone(op, run); }).ok();
}

absl::Status ApplyCaught(const BatchOp& op, BatchView& batch) {
  return Caught([&] { return op.Apply(batch); });
}

}  // namespace millrace::pipeline
