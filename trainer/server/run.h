#ifndef MILLRACE_TRAINER_SERVER_RUN_H_
#define MILLRACE_TRAINER_SERVER_RUN_H_

#include "absl/status/statusor.h"
#include "trainer/loop/parts.h"
#include "trainer/parameter_server.h"
#include "trainer/train.h"

namespace millrace::trainer {

// Trains as TrainOnServers does, with these parts.
absl::StatusOr<TrainOutcome> TrainOnServersWith(const TrainParts& parts,
                                                const TrainOptions& options, ServerTask task);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_RUN_H_
