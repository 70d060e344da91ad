#ifndef MILLRACE_TRAINER_RANKS_START_LIMIT_H_
#define MILLRACE_TRAINER_RANKS_START_LIMIT_H_

#include <chrono>

#include "collectives/communicator.h"

namespace millrace::trainer {

// Limits the communicator's waits for as long as it lives, unless they have a limit: without a
// watchdog nothing else ends a wait for a rank that is stopped, or whose host is gone.
class StartLimit {
 public:
  StartLimit(collectives::Communicator& communicator, std::chrono::nanoseconds timeout)
      : communicator_(communicator), before_(communicator.timeout()) {
    if (before_.count() == 0) communicator_.set_timeout(timeout);
  }
  ~StartLimit() { communicator_.set_timeout(before_); }
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;

 private:
  collectives::Communicator& communicator_;
  const std::chrono::nanoseconds before_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANKS_START_LIMIT_H_
