#ifndef MILLRACE_PIPELINE_BATCH_INTERNAL_H_
#define MILLRACE_PIPELINE_BATCH_INTERNAL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/run.h"
#include "base/schema.h"
#include "pipeline/host_allocator_internal.h"

namespace millrace::pipeline {

// Where everything lies in a slab: the tensors, then the rows' ids, then their valid bytes; each
// begins on a cache line. Immutable, shared by all batches of a pipeline.
struct BatchLayout {
  std::vector<std::string> names;
  std::vector<Field> fields;
  std::vector<size_t> offsets;    // of each tensor, in bytes
  std::vector<size_t> row_bytes;  // of each tensor
  size_t ids_offset = 0;
  size_t valid_offset = 0;
  size_t slab_bytes = 0;
  int64_t num_rows = 0;
};

//   INVALID_ARGUMENT  a field has an unknown or negative extent, rank 6 or dtype bytes, or the slab
//                     would be larger than 2^46 B
absl::StatusOr<BatchLayout> MakeBatchLayout(const Schema& schema, uint64_t num_rows);

// Slabs of one size, reused. Thread-safe. Slabs may come back after Close, and are then freed.
class SlabPool {
 public:
  // Keeps at most `max_idle` slabs.
  SlabPool(std::shared_ptr<HostAllocator> allocator, size_t slab_bytes, size_t max_idle);
  ~SlabPool();

  //   RESOURCE_EXHAUSTED  the system has no memory
  absl::StatusOr<std::byte*> Take();
  void GiveBack(std::byte* slab);
  // Frees idle slabs, and from now on those that come back.
  void Close();

 private:
  // Constant after construction.
  const std::shared_ptr<HostAllocator> allocator_;
  const size_t slab_bytes_;

  Mutex mu_;
  size_t max_idle_ MILLRACE_GUARDED_BY(mu_);
  std::vector<std::byte*> idle_ MILLRACE_GUARDED_BY(mu_);
};

// What a Batch is a handle of. Filled by the executor, immutable from its delivery on. It owns its
// slab and its place in the budget, and gives both back when the last handle drops.
struct BatchData {
  BatchData(std::shared_ptr<const BatchLayout> layout_in, std::shared_ptr<SlabPool> pool_in,
            std::shared_ptr<MemoryBudget> budget_in);
  ~BatchData();
  BatchData(const BatchData&) = delete;
  BatchData& operator=(const BatchData&) = delete;

  std::byte* tensor(size_t i) const { return slab + layout->offsets[i]; }
  SampleId* ids() const { return reinterpret_cast<SampleId*>(slab + layout->ids_offset); }
  uint8_t* valid() const { return reinterpret_cast<uint8_t*>(slab + layout->valid_offset); }

  const std::shared_ptr<const BatchLayout> layout;
  const std::shared_ptr<SlabPool> pool;
  const std::shared_ptr<MemoryBudget> budget;
  std::byte* slab = nullptr;
  bool held = false;  // counted as held by the consumer

  uint64_t index = 0;
  uint64_t epoch = 0;
  bool ends_epoch = false;
  int64_t num_valid_rows = 0;
  int64_t num_global_valid_rows = 0;
  int64_t first_global_row = 0;
  std::string resume_token;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_INTERNAL_H_
