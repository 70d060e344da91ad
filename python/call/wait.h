#ifndef MILLRACE_PYTHON_CALL_WAIT_H_
#define MILLRACE_PYTHON_CALL_WAIT_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "capi/millrace.h"
#include "python/call/lock.h"
#include "python/call/object.h"

namespace millrace::python {

// A wait of at most so many nanoseconds, below 0 without a limit, in slices after which signals are
// looked at: Ctrl-C ends it within a tenth of a second.
class Wait {
 public:
  explicit Wait(int64_t timeout_ns)
      : limited_(timeout_ns >= 0),
        end_(Clock::now() + std::chrono::nanoseconds(std::clamp<int64_t>(timeout_ns, 0, kMax))) {}

  // Returns true while time is left. Throws what a handler of a signal raises.
  bool GoesOn() const {
    CheckedZero(PyErr_CheckSignals());
    return !limited_ || Clock::now() < end_;
  }

  // Runs call(slice in nanoseconds), which returns an mr_error, without the interpreter's lock.
  template <typename Waiting>
  mr_error* Slice(const Waiting& call) const {
    const Unlocked unlocked;
    return call(SliceNs());
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kSlice = 100'000'000;
  static constexpr int64_t kMax = int64_t{1} << 61;

  int64_t SliceNs() const {
    if (!limited_) return kSlice;
    const auto left = std::chrono::nanoseconds(end_ - Clock::now()).count();
    return std::clamp<int64_t>(left, 0, kSlice);
  }

  const bool limited_;
  const Clock::time_point end_;
};

// Counts a wait, and its time, which is that from here to its end.
class WaitCount {
 public:
  WaitCount(uint64_t& waits, uint64_t& nanoseconds) : nanoseconds_(nanoseconds) { ++waits; }
  WaitCount(const WaitCount&) = delete;
  WaitCount& operator=(const WaitCount&) = delete;
  ~WaitCount() {
    const auto time = std::chrono::steady_clock::now() - begin_;
    nanoseconds_ += static_cast<uint64_t>(std::chrono::nanoseconds(time).count());
  }

 private:
  uint64_t& nanoseconds_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CALL_WAIT_H_
