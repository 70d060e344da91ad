#ifndef MILLRACE_PIPELINE_EXECUTOR_BATCH_MAKER_H_
#define MILLRACE_PIPELINE_EXECUTOR_BATCH_MAKER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/memory_budget.h"
#include "pipeline/batch/data.h"
#include "pipeline/executor/parts.h"
#include "pipeline/executor/work_item.h"
#include "pipeline/run/open_batch.h"
#include "pipeline/run/processor.h"

namespace millrace::pipeline {

// Opens batches with their slabs, and finishes them when all their rows have landed. Immutable,
// thread-safe; a batch is worked on by one thread at a time.
class BatchMaker {
 public:
  // Borrows parts and processor for its lifetime.
  BatchMaker(const ExecutorParts& parts, const RunProcessor& processor,
             std::shared_ptr<SlabPool> pool, std::shared_ptr<MemoryBudget> budget);

  // Makes the item's batch: with its slab, or with an error if there is no memory.
  std::unique_ptr<OpenBatch> Open(OpenItem& item) const;

  // Takes damaged rows out, or puts others in their place, and applies the ops over the whole.
  // Returns the batch's status.
  //   nullopt  another candidate has to be tried for each of batch.tolerable first
  std::optional<absl::Status> Finish(OpenBatch& batch) const;

 private:
  void OpenNext(const NextBatch& next, OpenBatch& batch) const;
  void OpenClosed(ClosedWork& work, OpenBatch& batch) const;
  bool TakeSlab(OpenBatch& batch) const;
  void PlaceClosedRows(ClosedBatch& closed, OpenBatch& batch) const;
  std::string TokenBehind(uint64_t batch, std::string state) const;
  absl::Status ApplyBatchOps(const BatchData& data) const;

  // Constant after construction.
  const ExecutorParts& parts_;
  const RunProcessor& processor_;
  const std::shared_ptr<SlabPool> pool_;
  const std::shared_ptr<MemoryBudget> budget_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_BATCH_MAKER_H_
