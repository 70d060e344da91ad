#ifndef MILLRACE_TRAINER_RANKS_WAITING_H_
#define MILLRACE_TRAINER_RANKS_WAITING_H_

#include <cstdint>

#include "collectives/progress.h"

namespace millrace::trainer {

// While it lives, this rank is said to wait for the others outside of the reducer, so that the rank
// that keeps them waiting can be named; then it is said to do `after`. In a wait that belongs to no
// step (-1), no rank whose process runs is given up.
class Waiting {
 public:
  // `progress` must outlive it; null: none.
  Waiting(collectives::Progress* progress, int64_t step,
          collectives::Phase after = collectives::Phase::kUpdating)
      : progress_(progress), step_(step), after_(after) {
    Enter(collectives::Phase::kWaiting);
  }
  ~Waiting() { Enter(after_); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  void Enter(collectives::Phase phase) const {
    if (progress_ != nullptr) progress_->Enter(step_, -1, phase);
  }

  collectives::Progress* const progress_;
  const int64_t step_;
  const collectives::Phase after_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANKS_WAITING_H_
