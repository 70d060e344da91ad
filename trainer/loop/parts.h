#ifndef MILLRACE_TRAINER_LOOP_PARTS_H_
#define MILLRACE_TRAINER_LOOP_PARTS_H_

#include <functional>

#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "collectives/communicator.h"
#include "trainer/backend/backend.h"
#include "trainer/loop/device_parts.h"
#include "trainer/loop/pipeline_threads.h"
#include "trainer/ranks/guard.h"
#include "trainer/train.h"

namespace millrace::trainer {

// The parts of a training that can be replaced.
struct TrainParts {
  BackendFactory make_backend = MakeOneDnnBackend;  // without a device
  DeviceParts device = {};
  GuardLimits limits;
  WriteFunction write_checkpoint = {};  // the way to write checkpoints; empty: write()
  ThreadTrialOptions thread_trials = {};
};

// Trains as Train does, with these parts.
absl::StatusOr<TrainOutcome> TrainWith(const TrainParts& parts, const TrainOptions& options,
                                       collectives::Communicator& communicator);

// Trains one rank, as Train does.
using RankTrainer =
    std::function<absl::StatusOr<TrainOutcome>(const TrainOptions&, collectives::Communicator&)>;

// As TrainReplicas, where each replica calls `train`.
absl::StatusOr<TrainOutcome> TrainReplicasWith(const RankTrainer& train,
                                               const TrainOptions& options,
                                               collectives::Communicator& processes);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_PARTS_H_
