#ifndef MILLRACE_TRAINER_LOOP_BATCH_STEP_H_
#define MILLRACE_TRAINER_LOOP_BATCH_STEP_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "trainer/loop/running_step.h"
#include "trainer/loop/session.h"
#include "trainer/loop/train_batch.h"

namespace millrace::trainer {

// The part of a step that depends on the kind of training: the gradients of a batch.
// Thread-compatible.
class BatchStep {
 public:
  virtual ~BatchStep() = default;

  // Checks that `batch` fits the models.
  virtual absl::Status Check(const TrainBatch& batch) = 0;

  // Computes the gradients of `batch`, a batch of step `number`, and marks each for reduction. The
  // results are added to `step`. Outcomes are those of Network and of Strategy.
  virtual absl::Status Run(const TrainBatch& batch, uint64_t number, RunningStep& step) = 0;
  // Ends the batch, and waits for the sums that are due. Outcomes are those of Strategy::Finish.
  virtual absl::Status Finish() = 0;
};

// Makes the one that the job of `session` needs; both outlive it.
std::unique_ptr<BatchStep> MakeBatchStep(Session& session,
                                         const collectives::Communicator& communicator);

// --- The kinds ---

// One model, by its losses.
std::unique_ptr<BatchStep> MakeSupervisedStep(Session& session,
                                              const collectives::Communicator& communicator);
// Two models, against each other.
std::unique_ptr<BatchStep> MakeAdversarialStep(Session& session,
                                               const collectives::Communicator& communicator);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_BATCH_STEP_H_
