#ifndef MILLRACE_PIPELINE_EXECUTOR_HAND_OVER_CLOCK_H_
#define MILLRACE_PIPELINE_EXECUTOR_HAND_OVER_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "pipeline/profile.h"

namespace millrace::pipeline {

// The time that calls of Next take which find their batch ready. One call in eight is measured, so
// that its two readings of the clock cost a call 4 ns. A call that waits is not among them: its
// time is that of the wait. Of the consumer's thread, but for Fill: any thread.
class HandOverClock {
 public:
  // A call begins. True if it is to be measured.
  bool Samples() { return (calls_++ & (kEvery - 1)) == 0; }
  // A measured call took so long.
  void Add(int64_t ns) {
    measured_.fetch_add(1, std::memory_order_relaxed);
    ns_.fetch_add(ns, std::memory_order_relaxed);
  }

  // The stream begins anew: all counts are 0.
  void Begin() {
    measured_.store(0, std::memory_order_relaxed);
    ns_.store(0, std::memory_order_relaxed);
  }
  void Fill(PipelineProfile& profile) const {
    profile.hand_over = {measured_.load(std::memory_order_relaxed),
                         ns_.load(std::memory_order_relaxed)};
  }

 private:
  static constexpr uint64_t kEvery = 8;  // a power of two

  uint64_t calls_ = 0;
  // The consumer's thread -> Fill, relaxed: counts.
  std::atomic<int64_t> measured_{0};
  std::atomic<int64_t> ns_{0};
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_HAND_OVER_CLOCK_H_
