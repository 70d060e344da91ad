#ifndef MILLRACE_PIPELINE_BATCH_DATA_H_
#define MILLRACE_PIPELINE_BATCH_DATA_H_

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
#include "pipeline/batch.h"
#include "pipeline/batch/host_allocator.h"

namespace millrace::pipeline {

struct ClosedBatch;   // pipeline/batch/closed_batch.h
struct PhysicalPlan;  // pipeline/plan/physical.h

// How the rows of a tensor lie in it.
enum class RowStore {
  kDense,   // each as large as the field says
  kPadded,  // each as large as the largest; the rest is filled
  kRagged,  // one after the other, as large as they are
  kSplits,  // not a field: where the rows of the ragged tensor before it begin
};

// Where everything lies in a slab: the tensors, then the rows' ids, then their valid bytes; each
// begins on a cache line. Immutable. Shared by all batches of a pipeline where all are alike;
// otherwise each batch has its own.
struct BatchLayout {
  std::vector<std::string> names;
  // dtype as stored (kU8 for bytes). shape: kDense, kPadded: of a row; kRagged: of one element of a
  // row's first extent; kSplits: a scalar.
  std::vector<Field> fields;
  std::vector<Shape> shapes;      // the shape of each tensor
  std::vector<size_t> offsets;    // the offset of each tensor, in bytes
  std::vector<size_t> row_bytes;  // the bytes of each tensor's `fields` shape
  size_t ids_offset = 0;
  size_t valid_offset = 0;
  size_t slab_bytes = 0;
  int64_t num_rows = 0;

  // Filled where batches differ; otherwise empty.
  std::vector<RowStore> stores;              // the store of each tensor
  std::vector<std::vector<Shape>> own;       // kPadded, kRagged: the shape of each row's value
  std::vector<std::vector<int64_t>> splits;  // kRagged: first elements of rows, and the end
  std::vector<std::vector<std::byte>> fill;  // kPadded: one element

  RowStore store(size_t tensor) const { return stores.empty() ? RowStore::kDense : stores[tensor]; }
};

//   INVALID_ARGUMENT  a field has an unknown or negative extent, rank 6 or dtype bytes, or the slab
//                     would be larger than 2^46 B
absl::StatusOr<BatchLayout> MakeBatchLayout(const Schema& schema, uint64_t num_rows);
// The layout of one batch of a plan whose batches differ (padded, ragged, bucket). The size of its
// slab is rounded up by at most an eighth, so that slabs are used again.
//   INVALID_ARGUMENT  the slab would be larger than 2^46 B
absl::StatusOr<BatchLayout> MakeClosedLayout(const PhysicalPlan& plan, const ClosedBatch& batch);

// The number of batches that are made ahead where the plan does not say: 2, or up to 32 while their
// slabs take 1 MiB together. A batch of little work takes less time than waking a thread, so that
// two would leave workers and consumer waiting for each other.
int DefaultPrefetch(const BatchLayout& layout);

// Slabs, reused by batches of the same size. Thread-safe. Slabs may come back after Close, and are
// then freed.
class SlabPool {
 public:
  // Keeps at most `max_idle` slabs, those that came back last, and only what the budget leaves.
  // They are not reserved in it: what is reserved comes first, and a slab of another size takes
  // their place.
  SlabPool(std::shared_ptr<HostAllocator> allocator, std::shared_ptr<const MemoryBudget> budget,
           size_t max_idle);
  ~SlabPool();

  //   RESOURCE_EXHAUSTED  the system has no memory
  // REQUIRES: the caller has reserved its bytes, and released them before it gives it back.
  absl::StatusOr<std::byte*> Take(size_t slab_bytes);
  void GiveBack(std::byte* slab, size_t slab_bytes);
  // Frees idle slabs, and from now on those that come back.
  void Close();

 private:
  struct Slab {
    std::byte* memory;
    size_t bytes;
  };
  std::vector<Slab> TakeSurplusLocked() MILLRACE_REQUIRES(mu_);
  void Free(const std::vector<Slab>& slabs);

  // Constant after construction.
  const std::shared_ptr<HostAllocator> allocator_;
  const std::shared_ptr<const MemoryBudget> budget_;

  Mutex mu_;
  size_t max_idle_ MILLRACE_GUARDED_BY(mu_);
  std::vector<Slab> idle_ MILLRACE_GUARDED_BY(mu_);  // the idle slabs, the oldest first
  int64_t idle_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;
};

// The data that a Batch is a handle of. Filled by the executor, immutable from its delivery on. It
// owns its slab and its place in the budget, and gives both back when the last handle drops.
struct BatchData {
  BatchData(std::shared_ptr<const BatchLayout> layout_in, std::shared_ptr<SlabPool> pool_in,
            std::shared_ptr<MemoryBudget> budget_in);
  ~BatchData();
  BatchData(const BatchData&) = delete;
  BatchData& operator=(const BatchData&) = delete;

  std::byte* tensor(size_t i) const { return slab + layout->offsets[i]; }
  SampleId* ids() const { return reinterpret_cast<SampleId*>(slab + layout->ids_offset); }
  uint8_t* valid() const { return reinterpret_cast<uint8_t*>(slab + layout->valid_offset); }

  std::shared_ptr<const BatchLayout> layout;  // the layout, of one slab size
  const std::shared_ptr<SlabPool> pool;
  const std::shared_ptr<MemoryBudget> budget;
  std::byte* slab = nullptr;
  int64_t reserved_bytes = 0;  // the bytes reserved in the budget
  bool held = false;           // true if these count as held by the consumer

  uint64_t index = 0;
  uint64_t epoch = 0;
  bool ends_epoch = false;  // true if the epoch changes, or the stream ends, behind this batch
  int64_t num_valid_rows = 0;
  int64_t num_global_valid_rows = 0;
  int64_t first_global_row = 0;
  std::string resume_token;
  std::vector<DamagedSample> damaged;
};

// The data behind the handle. REQUIRES: the batch is not empty.
const BatchData& DataOf(const Batch& batch);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_DATA_H_
