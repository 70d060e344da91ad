#ifndef MILLRACE_TRAINER_REPLICAS_H_
#define MILLRACE_TRAINER_REPLICAS_H_

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "trainer/train.h"

// The mirrored strategy: each process has several ranks, its replicas.

namespace millrace::trainer {

// Trains the job as the ranks of all `processes`, of which each has `options.replicas`, or if that
// is 0 as many as the job says. Every replica is a thread with its part of the process's cores,
// which calls Train; their calls of the options' functions may overlap, but for those that rank 0
// alone makes. With one replica this is Train. Collective over `processes`, on the thread that
// connected them.
//
// Outcomes are Train's; if replicas fail for different reasons, a failure of this process's own
// comes before the news of another rank's. Also
//   INVALID_ARGUMENT    the processes differ in the number of replicas
//   RESOURCE_EXHAUSTED  no thread or file descriptor for a replica
absl::StatusOr<TrainOutcome> TrainReplicas(const TrainOptions& options,
                                           collectives::Communicator& processes);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_REPLICAS_H_
