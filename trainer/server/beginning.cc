#include "trainer/server/beginning.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "trainer/loop/resume.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/server/protocol.h"
#include "trainer/weights/initial.h"

namespace millrace::trainer {
namespace {

absl::Status CheckPlan(const TrainOptions& options, const Checkpoint& found,
                       const Session& session) {
  if (found.state.plan_fingerprint == session.state.plan_fingerprint || options.force) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: the checkpoint is of another training plan (fingerprint %016x) than %s (%016x)%s",
      found.path, found.state.plan_fingerprint, session.job.train_path,
      session.state.plan_fingerprint, kForceAdvice));
}

// The positions of all workers, by the checkpoint.
absl::StatusOr<std::vector<WorkerPosition>> PositionsOf(const TrainOptions& options, int workers,
                                                        const Session& session) {
  const TrainState& state = session.state;
  const size_t count = static_cast<size_t>(workers);
  const std::vector<WorkerPosition>& saved = state.workers;
  if (saved.empty()) {
    return std::vector<WorkerPosition>(count, {state.step, state.resume_token});
  }
  if (saved.size() == count) return saved;
  const std::string difference =
      absl::StrCat(session.resumed_from, ": the checkpoint is of ", saved.size(),
                   " workers that did not go in step, not of ", workers);
  if (!options.force) return absl::FailedPreconditionError(difference + kForceAdvice);
  if (options.warn) {
    options.warn(
        absl::StrCat(difference, ": resuming by force, all of them where the last one was"));
  }
  const auto least = std::ranges::min_element(saved, {}, &WorkerPosition::batches);
  return std::vector<WorkerPosition>(count, *least);
}

absl::Status TakeCheckpoint(const TrainOptions& options, Checkpoint found, Session& session,
                            AllTensors& tensors) {
  MILLRACE_RETURN_IF_ERROR(CheckPlan(options, found, session));
  session.resumed_from = found.path;
  tensors.weights = std::move(found.weights);
  session.main().buffers = std::move(found.buffers);
  TrainState state = std::move(found.state);
  state.model_fingerprint = session.state.model_fingerprint;
  state.plan_fingerprint = session.state.plan_fingerprint;
  state.job = session.state.job;
  state.global_batch = session.state.global_batch;
  session.state = std::move(state);
  return absl::OkStatus();
}

wire::Start StartOf(const Session& session, const std::vector<WorkerPosition>& positions,
                    uint64_t batches) {
  wire::Start start;
  start.set_version(session.state.step);
  start.set_total(session.steps.total_steps);
  start.set_steps_per_epoch(session.steps.steps_per_epoch);
  start.set_batches(batches);
  start.set_data_fingerprint(session.state.data_fingerprint);
  for (const WorkerPosition& position : positions) {
    wire::Position& wire = *start.add_positions();
    wire.set_batches(position.batches);
    wire.set_token(position.resume_token);
  }
  SetBuffers(session.main().buffers, start.mutable_buffers());
  return start;
}

}  // namespace

uint64_t RowsOfUpdate(int workers, const Session& session) {
  const uint64_t batch = session.state.global_batch;
  if (session.job.job.strategy().parameter_server().synchronous()) return batch;
  return std::max<uint64_t>(1, batch / static_cast<uint64_t>(workers));
}

void CountUpdates(int workers, Session& session) {
  if (!session.job.job.strategy().parameter_server().synchronous()) {
    session.steps.total_steps *= static_cast<uint64_t>(workers);
    session.steps.steps_per_epoch *= static_cast<uint64_t>(workers);
  }
  session.main().schedule =
      Schedule::Make(session.job.job.optimizer(), RowsOfUpdate(workers, session),
                     session.steps.steps_per_epoch, session.steps.total_steps);
}

absl::StatusOr<Beginning> MakeBeginning(const TrainOptions& options, int workers,
                                        Session& session) {
  const OptimizerSpec& spec = session.job.job.optimizer();
  Beginning beginning;
  AllTensors& tensors = beginning.tensors;
  tensors.slots = MakeSlots(spec, session.model);
  if (spec.has_ema()) tensors.slots.push_back({kAverageSlot, MakeZeros(session.model)});
  MILLRACE_RETURN_IF_ERROR(SetInitialTensors(session.job, session.model, !options.resume,
                                             tensors.weights, session.main().buffers));
  const Resumption resumption = {options.job_path, session.job,   session.model,
                                 session.models,   options.force, options.warn};
  std::vector<Slots> slots = {std::move(tensors.slots)};
  MILLRACE_ASSIGN_OR_RETURN(std::optional<Checkpoint> found,
                            FindBeginning(resumption, options.resume, slots));
  tensors.slots = std::move(slots[0]);
  if (found) {
    MILLRACE_RETURN_IF_ERROR(TakeCheckpoint(options, *std::move(found), session, tensors));
  } else if (spec.has_ema()) {
    tensors.slots.back().tensors = tensors.weights;
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto positions, PositionsOf(options, workers, session));
  session.state.resume_token = positions[0].resume_token;
  MILLRACE_RETURN_IF_ERROR(OpenTrainPipeline(options, 0, workers, session));
  const uint64_t batches = session.steps.total_steps;
  CountUpdates(workers, session);
  beginning.start = StartOf(session, positions, batches);
  beginning.start.set_batch(RowsOfUpdate(workers, session));
  return beginning;
}

}  // namespace millrace::trainer
