#ifndef MILLRACE_TRAINER_SERVER_BEGINNING_H_
#define MILLRACE_TRAINER_SERVER_BEGINNING_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/loop/session.h"
#include "trainer/server/server.pb.h"
#include "trainer/server/shard.h"
#include "trainer/train.h"

namespace millrace::trainer {

// The beginning of a training on servers, as the chief brings it.
struct Beginning {
  wire::Start start;
  AllTensors tensors;
};

// Makes the beginning from the job or its newest checkpoint, and opens the training pipeline for
// worker 0. `session` has its files.
//   the outcomes of Train for files and checkpoints
absl::StatusOr<Beginning> MakeBeginning(const TrainOptions& options, int workers, Session& session);

// The rows of an update, for the learning rate.
uint64_t RowsOfUpdate(int workers, const Session& session);
// Makes the numbers of steps, and the schedule, those of updates: without synchronous, each batch
// of each worker is one.
void CountUpdates(int workers, Session& session);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_BEGINNING_H_
