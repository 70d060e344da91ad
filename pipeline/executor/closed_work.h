#ifndef MILLRACE_PIPELINE_EXECUTOR_CLOSED_WORK_H_
#define MILLRACE_PIPELINE_EXECUTOR_CLOSED_WORK_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "base/memory_budget.h"
#include "pipeline/batch/closed_batch.h"
#include "pipeline/batch/data.h"

namespace millrace::pipeline {

// A closed batch of a plan with a cut that waits to be opened. Its memory is in the budget.
struct ClosedWork {
  ClosedWork(ClosedBatch batch_in, MemoryBudget& budget);
  ~ClosedWork();
  ClosedWork(const ClosedWork&) = delete;
  ClosedWork& operator=(const ClosedWork&) = delete;

  ClosedBatch batch;
  MemoryBudget& budget;
  const int64_t reserved_bytes;  // the bytes reserved in the budget
  std::shared_ptr<const BatchLayout> layout;
  absl::Status layout_error;  // the reason why there is no layout
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_CLOSED_WORK_H_
