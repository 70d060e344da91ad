#ifndef MILLRACE_BASE_MEMORY_BUDGET_H_
#define MILLRACE_BASE_MEMORY_BUDGET_H_

#include <cstdint>
#include <memory>

#include "base/metrics.h"
#include "base/mutex.h"

namespace millrace {

// The bytes that all pipelines of one Context may use for read buffers, arenas and batches. It only
// counts: who may go over the limit is the caller's rule. Batches hold it, so it may outlive the
// Context. Thread-safe; never blocks.
class MemoryBudget {
 public:
  // Shows what is reserved as the gauge "millrace_memory_reserved_bytes" of `metrics`.
  MemoryBudget(int64_t limit_bytes, std::shared_ptr<Metrics> metrics);

  int64_t limit_bytes() const { return limit_bytes_; }

  // Reserves `bytes` and returns true, or returns false when they do not fit.
  bool TryReserve(int64_t bytes);
  // Reserves `bytes`, over the limit if need be.
  void Reserve(int64_t bytes);
  void Release(int64_t bytes);

  // Says that `bytes`, reserved earlier, are now in the consumer's hands (or no longer, with a
  // negative number), where no work of ours can free them.
  void Hold(int64_t bytes);

  int64_t reserved_bytes() const;
  int64_t held_bytes() const;
  // True when `bytes` would fit now.
  bool Fits(int64_t bytes) const;
  // True when `bytes` would not fit even if everything were freed but what consumers hold.
  bool HeldLeavesNoRoomFor(int64_t bytes) const;

 private:
  // Constant after construction.
  const int64_t limit_bytes_;
  const std::shared_ptr<Metrics> metrics_;
  Gauge& gauge_;  // synchronises itself

  mutable Mutex mu_;
  int64_t reserved_ MILLRACE_GUARDED_BY(mu_) = 0;
  int64_t held_ MILLRACE_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_MEMORY_BUDGET_H_
