#ifndef MILLRACE_TRAINER_LOOP_SHARE_H_
#define MILLRACE_TRAINER_LOOP_SHARE_H_

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "trainer/checkpoint/checkpoint.h"

namespace millrace::trainer {

// Rank 0 gives the others the parts of a checkpoint's state that a training goes on with.
// Collective.
absl::Status ShareState(collectives::Communicator& communicator, TrainState& state);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_SHARE_H_
