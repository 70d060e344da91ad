#include <algorithm>
#include <utility>

#include "pipeline/batch_internal.h"

namespace millrace::pipeline {

SlabPool::SlabPool(std::shared_ptr<HostAllocator> allocator, size_t max_idle)
    : allocator_(std::move(allocator)), max_idle_(max_idle) {}

SlabPool::~SlabPool() { Close(); }

absl::StatusOr<std::byte*> SlabPool::Take(size_t slab_bytes) {
  {
    MutexLock lock(mu_);
    const auto it = std::ranges::find(idle_, slab_bytes, &Slab::bytes);
    if (it != idle_.end()) {
      std::byte* const memory = it->memory;
      idle_.erase(it);
      return memory;
    }
  }
  return allocator_->Allocate(slab_bytes);
}

void SlabPool::GiveBack(std::byte* slab, size_t slab_bytes) {
  Slab surplus{slab, slab_bytes};
  {
    MutexLock lock(mu_);
    if (max_idle_ > 0) idle_.push_back(surplus);
    if (max_idle_ > 0 && idle_.size() <= max_idle_) return;
    if (!idle_.empty()) {
      surplus = idle_.front();
      idle_.erase(idle_.begin());
    }
  }
  allocator_->Free(surplus.memory, surplus.bytes);
}

void SlabPool::Close() {
  std::vector<Slab> idle;
  {
    MutexLock lock(mu_);
    max_idle_ = 0;
    idle.swap(idle_);
  }
  for (const Slab& slab : idle) allocator_->Free(slab.memory, slab.bytes);
}

BatchData::BatchData(std::shared_ptr<const BatchLayout> layout_in,
                     std::shared_ptr<SlabPool> pool_in, std::shared_ptr<MemoryBudget> budget_in)
    : layout(std::move(layout_in)), pool(std::move(pool_in)), budget(std::move(budget_in)) {}

BatchData::~BatchData() {
  const auto bytes = static_cast<int64_t>(layout->slab_bytes);
  if (slab != nullptr) pool->GiveBack(slab, layout->slab_bytes);
  if (held) budget->Hold(-bytes);
  budget->Release(bytes);
}

}  // namespace millrace::pipeline
