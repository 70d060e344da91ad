#ifndef MILLRACE_TRAINER_LOOP_TRAIN_BATCH_H_
#define MILLRACE_TRAINER_LOOP_TRAIN_BATCH_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/device_feed.h"
#include "pipeline/pipeline.h"
#include "trainer/backend/backend.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

struct Session;  // trainer/loop/session.h

// A batch of the training pipeline in the host's memory, and, with a feed, in that of the device.
struct TrainBatch {
  pipeline::Batch host;
  std::optional<pipeline::DeviceBatch> device;  // nullopt: there is no feed
};

// The next batch of the session's training pipeline; nullopt at its end. Outcomes are those of
// Pipeline::Next or DeviceFeed::Next.
absl::StatusOr<std::optional<TrainBatch>> NextBatch(Session& session);

// Where the fields of `input`, which is made of `batch` by InputOf, lie in the device's memory.
void AddDeviceFields(const Model& model, const TrainBatch& batch, StepInput& input);

// The device's work from now on comes after the copy of `batch`, and the memory of the batch is not
// written before the work up to EndUse is done. Without a feed they do nothing. Errors are the
// driver's.
absl::Status BeginUse(const TrainBatch& batch, const Session& session);
absl::Status EndUse(const TrainBatch& batch, const Session& session);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_TRAIN_BATCH_H_
