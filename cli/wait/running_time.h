#ifndef MILLRACE_CLI_WAIT_RUNNING_TIME_H_
#define MILLRACE_CLI_WAIT_RUNNING_TIME_H_

#include <algorithm>
#include <chrono>

namespace millrace::cli {

// The time that this process has run, from looks at a clock that should come every `turn`. In a
// longer gap between two looks the process was stopped (SIGSTOP, a frozen container), and only two
// turns of the gap count. Thread-compatible.
class RunningTime {
 public:
  using Clock = std::chrono::steady_clock;

  RunningTime(Clock::time_point now, Clock::duration turn) : last_(now), most_(2 * turn) {}

  // Returns the time that this process has run until `now`.
  Clock::duration Look(Clock::time_point now) {
    total_ += std::min(now - last_, most_);
    last_ = now;
    return total_;
  }

 private:
  Clock::time_point last_;
  const Clock::duration most_;
  Clock::duration total_{0};
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_RUNNING_TIME_H_
