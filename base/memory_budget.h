#ifndef MILLRACE_BASE_MEMORY_BUDGET_H_
#define MILLRACE_BASE_MEMORY_BUDGET_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "base/metrics.h"
#include "base/mutex.h"

namespace millrace {

// Counts the bytes that all pipelines of one Context use. Standing memory lives as long as its
// pipeline: indexes, slots of shuffles. The rest is for work: read buffers, arenas, batches.
// Callers decide when to exceed the limit. Batches hold the budget, so it may outlive the
// Context. Thread-safe; never blocks.
class MemoryBudget {
 public:
  // Work always gets 1/16 of the limit, however large standing memory is; so the sum stays within
  // 17/16 of the limit unless standing memory alone exceeds it.
  static constexpr int64_t kLeastWorkShare = 16;

  // Shows the reserved bytes as the gauge "millrace_memory_reserved_bytes" of `metrics`.
  MemoryBudget(int64_t limit_bytes, std::shared_ptr<Metrics> metrics);

  int64_t limit_bytes() const { return limit_bytes_; }

  // Reserves `bytes` for work and returns true, or returns false when they do not fit.
  bool TryReserve(int64_t bytes);
  // Reserves `bytes` for work, over the limit if need be.
  void Reserve(int64_t bytes);
  void Release(int64_t bytes);
  // Adds `bytes` of standing memory; a negative number takes them away again.
  void Stand(int64_t bytes);

  // Marks `bytes`, reserved earlier, as held by the consumer, which alone can free them; a negative
  // number takes the mark away again.
  void Hold(int64_t bytes);

  int64_t reserved_bytes() const;  // the sum of work_bytes and standing_bytes
  // The most that was reserved at once.
  int64_t highest_bytes() const { return gauge_.max(); }
  int64_t standing_bytes() const;
  int64_t work_bytes() const;
  // The part of the limit that is left for work.
  int64_t work_limit_bytes() const;
  int64_t held_bytes() const;
  // True if `bytes` would fit now.
  bool Fits(int64_t bytes) const;
  // True if `bytes` would not fit even if all work were freed except for what consumers hold.
  bool HeldLeavesNoRoomFor(int64_t bytes) const;

 private:
  int64_t WorkLimitLocked() const MILLRACE_REQUIRES(mu_);
  void ShowLocked() MILLRACE_REQUIRES(mu_);

  // Constant after construction.
  const int64_t limit_bytes_;
  const std::shared_ptr<Metrics> metrics_;
  Gauge& gauge_;  // synchronises itself

  mutable Mutex mu_;
  int64_t work_ MILLRACE_GUARDED_BY(mu_) = 0;
  int64_t standing_ MILLRACE_GUARDED_BY(mu_) = 0;
  int64_t held_ MILLRACE_GUARDED_BY(mu_) = 0;
};

// Counts bytes as standing memory during its life. Immutable.
class StandingMemory {
 public:
  // A null budget counts nothing.
  StandingMemory(std::shared_ptr<MemoryBudget> budget, int64_t bytes)
      : budget_(std::move(budget)), bytes_(bytes) {
    if (budget_ != nullptr) budget_->Stand(bytes_);
  }
  ~StandingMemory() {
    if (budget_ != nullptr) budget_->Stand(-bytes_);
  }
  StandingMemory(const StandingMemory&) = delete;
  StandingMemory& operator=(const StandingMemory&) = delete;

 private:
  const std::shared_ptr<MemoryBudget> budget_;
  const int64_t bytes_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_MEMORY_BUDGET_H_
