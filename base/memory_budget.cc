#include "base/memory_budget.h"

#include <algorithm>
#include <utility>

#include "base/metric_table.h"

namespace millrace {

MemoryBudget::MemoryBudget(int64_t limit_bytes, std::shared_ptr<Metrics> metrics)
    : limit_bytes_(limit_bytes),
      metrics_(std::move(metrics)),
      gauge_(metrics_->gauge(metric::kMemoryReserved)) {}

int64_t MemoryBudget::WorkLimitLocked() const {
  return std::max(limit_bytes_ - standing_, limit_bytes_ / kLeastWorkShare);
}

void MemoryBudget::ShowLocked() { gauge_.Set(static_cast<double>(work_ + standing_)); }

bool MemoryBudget::TryReserve(int64_t bytes) {
  MutexLock lock(mu_);
  if (bytes > WorkLimitLocked() - work_) return false;
  work_ += bytes;
  ShowLocked();
  return true;
}

void MemoryBudget::Reserve(int64_t bytes) {
  MutexLock lock(mu_);
  work_ += bytes;
  ShowLocked();
}

void MemoryBudget::Release(int64_t bytes) { Reserve(-bytes); }

void MemoryBudget::Stand(int64_t bytes) {
  MutexLock lock(mu_);
  standing_ += bytes;
  ShowLocked();
}

void MemoryBudget::Hold(int64_t bytes) {
  MutexLock lock(mu_);
  held_ += bytes;
}

int64_t MemoryBudget::reserved_bytes() const {
  MutexLock lock(mu_);
  return work_ + standing_;
}

int64_t MemoryBudget::standing_bytes() const {
  MutexLock lock(mu_);
  return standing_;
}

int64_t MemoryBudget::work_bytes() const {
  MutexLock lock(mu_);
  return work_;
}

int64_t MemoryBudget::work_limit_bytes() const {
  MutexLock lock(mu_);
  return WorkLimitLocked();
}

int64_t MemoryBudget::held_bytes() const {
  MutexLock lock(mu_);
  return held_;
}

bool MemoryBudget::Fits(int64_t bytes) const {
  MutexLock lock(mu_);
  return bytes <= WorkLimitLocked() - work_;
}

bool MemoryBudget::HeldLeavesNoRoomFor(int64_t bytes) const {
  MutexLock lock(mu_);
  return held_ > 0 && bytes > WorkLimitLocked() - held_;
}

}  // namespace millrace
