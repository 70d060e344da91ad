#include "base/memory_budget.h"

#include <utility>

namespace millrace {

MemoryBudget::MemoryBudget(int64_t limit_bytes, std::shared_ptr<Metrics> metrics)
    : limit_bytes_(limit_bytes),
      metrics_(std::move(metrics)),
      gauge_(metrics_->gauge("millrace_memory_reserved_bytes")) {}

bool MemoryBudget::TryReserve(int64_t bytes) {
  MutexLock lock(mu_);
  if (bytes > limit_bytes_ - reserved_) return false;
  reserved_ += bytes;
  gauge_.Set(reserved_);
  return true;
}

void MemoryBudget::Reserve(int64_t bytes) {
  MutexLock lock(mu_);
  reserved_ += bytes;
  gauge_.Set(reserved_);
}

void MemoryBudget::Release(int64_t bytes) { Reserve(-bytes); }

void MemoryBudget::Hold(int64_t bytes) {
  MutexLock lock(mu_);
  held_ += bytes;
}

int64_t MemoryBudget::reserved_bytes() const {
  MutexLock lock(mu_);
  return reserved_;
}

int64_t MemoryBudget::held_bytes() const {
  MutexLock lock(mu_);
  return held_;
}

bool MemoryBudget::Fits(int64_t bytes) const {
  MutexLock lock(mu_);
  return bytes <= limit_bytes_ - reserved_;
}

bool MemoryBudget::HeldLeavesNoRoomFor(int64_t bytes) const {
  MutexLock lock(mu_);
  return held_ > 0 && bytes > limit_bytes_ - held_;
}

}  // namespace millrace
