#include "trainer/loop/evaluate.h"

#include <array>

#include "base/status.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"

namespace millrace::trainer {

absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> OpenEvaluation(
    const Session& session, const collectives::Communicator& communicator,
    const std::function<void(int64_t done, int64_t total)>& index_progress) {
  pipeline::OpenOptions options;
  options.rank = communicator.rank();
  options.world = communicator.size();
  options.quarantine_file = session.quarantine_file;
  if (communicator.rank() == 0) options.index_progress = index_progress;
  MILLRACE_ASSIGN_OR_RETURN(auto pipeline,
                            pipeline::Pipeline::Open(*session.eval_plan, session.context, options));
  MILLRACE_RETURN_IF_ERROR(CheckFields(session.main().model, pipeline->schema()));
  const pipeline::StreamLength length = pipeline->length();
  if (length.infinite) {
    return absl::InvalidArgumentError("the pipeline repeats for ever; evaluation is one pass");
  }
  if (length.known && length.batches == 0) {
    return absl::InvalidArgumentError("there is nothing to evaluate on");
  }
  return pipeline;
}

namespace {

// Evaluates this rank's part. It makes no collective call, so an error here holds up no other
// rank. Each batch is reported as two phases: so a long evaluation makes progress, a hanging one
// does not.
absl::StatusOr<Evaluation> EvaluateOwnPart(Session& session,
                                           const collectives::Communicator& communicator,
                                           collectives::Progress& progress, int64_t step) {
  progress.Enter(step, -1, collectives::Phase::kReading);
  MILLRACE_ASSIGN_OR_RETURN(const auto pipeline, OpenEvaluation(session, communicator));
  Evaluation part;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, pipeline->Next());
    if (!batch.has_value()) return part;
    MILLRACE_RETURN_IF_ERROR(progress.Health());
    progress.Enter(step, -1, collectives::Phase::kBackward);
    MILLRACE_ASSIGN_OR_RETURN(
        Network* const network,
        session.main().backend->Compile(batch->num_rows(), NetworkUse::kEvaluation));
    MILLRACE_ASSIGN_OR_RETURN(const StepResult result,
                              network->Forward(InputOf(session.main().model, *pipeline, *batch)));
    part.correct += result.correct;
    part.in_top5 += result.in_top5;
    part.error_sum += result.error_sum;
    part.total += result.valid;
    part.loss_sum += result.loss_sum;
    progress.Enter(step, -1, collectives::Phase::kReading);
  }
}

}  // namespace

StepInput InputOf(const Model& model, const pipeline::Pipeline& pipeline,
                  const pipeline::Batch& batch) {
  StepInput input;
  for (const ModelInput& field : model.inputs) {
    input.inputs.emplace_back(batch.Find(field.field));
  }
  for (const Loss& loss : model.losses) input.targets.emplace_back(batch.Find(loss.target));
  input.valid = batch.valid();
  input.global_valid_rows = batch.num_global_valid_rows();
  input.ids = batch.ids();
  input.locate = [&pipeline](const SampleId& id) { return pipeline.Locate(id); };
  return input;
}

absl::StatusOr<Evaluation> Evaluate(Session& session, collectives::Communicator& communicator,
                                    collectives::Progress& progress, int64_t step) {
  absl::StatusOr<Evaluation> part = EvaluateOwnPart(session, communicator, progress, step);
  MILLRACE_RETURN_IF_ERROR(progress.Health());
  const Waiting waiting(&progress, step);
  MILLRACE_RETURN_IF_ERROR(
      AgreeOnStatus(communicator, Annotate(part.status(), session.job.eval_path)));
  std::array<int64_t, 3> counts = {part->correct, part->total, part->in_top5};
  std::array<double, 2> sums = {part->loss_sum, part->error_sum};
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator, std::span<int64_t>(counts)));
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator, std::span<double>(sums)));
  part->correct = counts[0];
  part->total = counts[1];
  part->in_top5 = counts[2];
  part->loss_sum = sums[0];
  part->error_sum = sums[1];
  return part;
}

}  // namespace millrace::trainer
