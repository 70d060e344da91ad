#ifndef MILLRACE_TESTS_COLLECTIVES_TURN_CLOCK_H_
#define MILLRACE_TESTS_COLLECTIVES_TURN_CLOCK_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/mutex.h"

namespace millrace::collectives {

// Time that goes by turns: one has passed when all ranks have asked for the time since the turn
// before. So a rank that gets no core holds the time up, and does not look as if it had stopped.
// Thread-safe.
class TurnClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  TurnClock(int num_ranks, std::chrono::milliseconds turn) : turn_(turn), asked_(num_ranks) {}

  // The time, asked for by a rank that lets it pass.
  Time Ask(int rank) {
    const MutexLock lock(mu_);
    asked_[rank] = true;
    EndTurn();
    return Time() + turn_ * turns_;
  }
  // The time, which does not pass by this.
  Time Look() {
    const MutexLock lock(mu_);
    return Time() + turn_ * turns_;
  }
  int64_t turns() {
    const MutexLock lock(mu_);
    return turns_;
  }
  // The rank asks no more. Without this a test that fails on one rank would stop the time of the
  // others.
  void Leave(int rank) {
    const MutexLock lock(mu_);
    left_.push_back(rank);
    EndTurn();
  }

 private:
  void EndTurn() MILLRACE_REQUIRES(mu_) {
    for (const int rank : left_) asked_[rank] = true;
    if (std::ranges::find(asked_, false) != asked_.end()) return;
    ++turns_;
    asked_.assign(asked_.size(), false);
  }

  const std::chrono::milliseconds turn_;
  Mutex mu_;
  int64_t turns_ MILLRACE_GUARDED_BY(mu_) = 0;
  std::vector<bool> asked_ MILLRACE_GUARDED_BY(mu_);  // by rank: in this turn
  std::vector<int> left_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_TURN_CLOCK_H_
