#include "pipeline/executor/closed_work.h"

#include <utility>

namespace millrace::pipeline {

ClosedWork::ClosedWork(ClosedBatch batch_in, MemoryBudget& budget_in)
    : batch(std::move(batch_in)),
      budget(budget_in),
      reserved_bytes(static_cast<int64_t>(batch.rows.size() * sizeof(ClosedBatch::Row) +
                                          batch.extents.size() * sizeof(int64_t) +
                                          batch.state.size())) {
  budget.Reserve(reserved_bytes);
}

ClosedWork::~ClosedWork() { budget.Release(reserved_bytes); }

}  // namespace millrace::pipeline
