#include "pipeline/batch/data.h"

#include <algorithm>
#include <utility>

namespace millrace::pipeline {

SlabPool::SlabPool(std::shared_ptr<HostAllocator> allocator,
                   std::shared_ptr<const MemoryBudget> budget, size_t max_idle)
    : allocator_(std::move(allocator)), budget_(std::move(budget)), max_idle_(max_idle) {}

SlabPool::~SlabPool() { Close(); }

// Takes out what is too much, the oldest first.
std::vector<SlabPool::Slab> SlabPool::TakeSurplusLocked() {
  std::vector<Slab> surplus;
  while (!idle_.empty() && (idle_.size() > max_idle_ || !budget_->Fits(idle_bytes_))) {
    surplus.push_back(idle_.front());
    idle_bytes_ -= static_cast<int64_t>(idle_.front().bytes);
    idle_.erase(idle_.begin());
  }
  return surplus;
}

void SlabPool::Free(const std::vector<Slab>& slabs) {
  for (const Slab& slab : slabs) allocator_->Free(slab.memory, slab.bytes);
}

absl::StatusOr<std::byte*> SlabPool::Take(size_t slab_bytes) {
  std::vector<Slab> surplus;
  {
    MutexLock lock(mu_);
    const auto it = std::ranges::find(idle_, slab_bytes, &Slab::bytes);
    if (it != idle_.end()) {
      std::byte* const memory = it->memory;
      idle_bytes_ -= static_cast<int64_t>(slab_bytes);
      idle_.erase(it);
      return memory;
    }
    surplus = TakeSurplusLocked();
  }
  Free(surplus);
  return allocator_->Allocate(slab_bytes);
}

void SlabPool::GiveBack(std::byte* slab, size_t slab_bytes) {
  std::vector<Slab> surplus;
  {
    MutexLock lock(mu_);
    idle_.push_back({slab, slab_bytes});
    idle_bytes_ += static_cast<int64_t>(slab_bytes);
    surplus = TakeSurplusLocked();
  }
  Free(surplus);
}

void SlabPool::Close() {
  std::vector<Slab> idle;
  {
    MutexLock lock(mu_);
    max_idle_ = 0;
    idle = TakeSurplusLocked();
  }
  Free(idle);
}

BatchData::BatchData(std::shared_ptr<const BatchLayout> layout_in,
                     std::shared_ptr<SlabPool> pool_in, std::shared_ptr<MemoryBudget> budget_in)
    : layout(std::move(layout_in)), pool(std::move(pool_in)), budget(std::move(budget_in)) {}

BatchData::~BatchData() {
  if (held) budget->Hold(-reserved_bytes);
  budget->Release(reserved_bytes);
  if (slab != nullptr) pool->GiveBack(slab, layout->slab_bytes);
}

}  // namespace millrace::pipeline
