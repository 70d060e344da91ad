#include "trainer/loop/train_batch.h"

#include "base/status.h"
#include "trainer/loop/session.h"

namespace millrace::trainer {

absl::StatusOr<std::optional<TrainBatch>> NextBatch(Session& session) {
  if (session.feed == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<pipeline::Batch> batch, session.train->Next());
    if (!batch) return std::nullopt;
    return TrainBatch{*std::move(batch), std::nullopt};
  }
  MILLRACE_ASSIGN_OR_RETURN(std::optional<pipeline::DeviceBatch> batch, session.feed->Next());
  if (!batch) return std::nullopt;
  return TrainBatch{batch->host(), batch};
}

void AddDeviceFields(const Model& model, const TrainBatch& batch, StepInput& input) {
  if (!batch.device) return;
  for (const ModelInput& field : model.inputs) {
    input.device_inputs.push_back(batch.device->Find(field.field).data);
  }
  for (const Loss& loss : model.losses) {
    input.device_targets.push_back(batch.device->Find(loss.target).data);
  }
}

absl::Status BeginUse(const TrainBatch& batch, const Session& session) {
  return batch.device ? batch.device->WaitOn(session.device->stream()) : absl::OkStatus();
}

absl::Status EndUse(const TrainBatch& batch, const Session& session) {
  return batch.device ? batch.device->RecordUse(session.device->stream()) : absl::OkStatus();
}

}  // namespace millrace::trainer
