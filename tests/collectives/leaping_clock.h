#ifndef MILLRACE_TESTS_COLLECTIVES_LEAPING_CLOCK_H_
#define MILLRACE_TESTS_COLLECTIVES_LEAPING_CLOCK_H_

#include <atomic>
#include <chrono>

namespace millrace::collectives {

// Time that stands until Start, and then goes on by a minute with each look at it: a wait that
// begins later is over at once, one before has no end. Thread-safe.
class LeapingClock {
 public:
  void Start() { runs_ = true; }
  std::chrono::steady_clock::time_point Now() {
    const int minutes = runs_ ? ++minutes_ : minutes_.load();
    return std::chrono::steady_clock::time_point() + std::chrono::minutes(minutes);
  }

 private:
  std::atomic<bool> runs_ = false;  // the test -> all ranks
  std::atomic<int> minutes_ = 0;    // all ranks
};

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_LEAPING_CLOCK_H_
