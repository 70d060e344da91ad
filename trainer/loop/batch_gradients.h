#ifndef MILLRACE_TRAINER_LOOP_BATCH_GRADIENTS_H_
#define MILLRACE_TRAINER_LOOP_BATCH_GRADIENTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "pipeline/pipeline.h"
#include "trainer/loop/running_step.h"
#include "trainer/loop/session.h"

namespace millrace::trainer {

// Computes the gradients of `batch`, a batch of step `number`, marks each for reduction, and ends
// the batch. The results are added to `step`. Outcomes are those of Network and of
// Strategy::Finish.
absl::Status ComputeGradients(Session& session, const collectives::Communicator& communicator,
                              uint64_t number, const pipeline::Batch& batch, RunningStep& step);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_BATCH_GRADIENTS_H_
