#ifndef MILLRACE_TRAINER_LOOP_SHARE_H_
#define MILLRACE_TRAINER_LOOP_SHARE_H_

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/model/parameters.h"

// Rank 0 gives the others what it has read. Collective.

namespace millrace::trainer {

absl::Status ShareTensors(collectives::Communicator& communicator, TensorSet& tensors);

// Shares the parts of a checkpoint's state that a training goes on with.
absl::Status ShareState(collectives::Communicator& communicator, TrainState& state);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_SHARE_H_
