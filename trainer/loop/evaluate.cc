#include "trainer/loop/evaluate.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "trainer/loop/auc.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"

namespace millrace::trainer {

absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> OpenEvaluation(
    const EvaluationParts& parts, const collectives::Communicator& communicator,
    const std::function<void(int64_t done, int64_t total)>& index_progress) {
  pipeline::OpenOptions options;
  options.rank = communicator.rank();
  options.world = communicator.size();
  options.quarantine_file = parts.quarantine_file;
  options.cpu_budget = parts.threads;
  if (communicator.rank() == 0) options.index_progress = index_progress;
  MILLRACE_ASSIGN_OR_RETURN(auto pipeline,
                            pipeline::Pipeline::Open(parts.plan, parts.context, options));
  MILLRACE_RETURN_IF_ERROR(CheckFields(parts.model, pipeline->schema()));
  MILLRACE_RETURN_IF_ERROR(CheckIsOnePass(pipeline->length()));
  return pipeline;
}

namespace {

constexpr int64_t kTop5Classes = 50;  // of fewer classes the five best say little

// Sums over this rank's samples.
struct Part {
  Evaluation sums;
  ClassScores scores;  // of a binary loss
};

// Evaluates this rank's part. It makes no collective call, so an error here holds up no other
// rank. Each batch is reported as two phases: so a long evaluation makes progress, a hanging one
// does not.
absl::StatusOr<Part> EvaluateOwnPart(const EvaluationParts& parts,
                                     const collectives::Communicator& communicator,
                                     collectives::Progress& progress, int64_t step) {
  progress.Enter(step, -1, collectives::Phase::kReading);
  MILLRACE_ASSIGN_OR_RETURN(const auto pipeline, OpenEvaluation(parts, communicator));
  const Loss& loss = parts.model.losses[0];
  const bool tells = communicator.rank() == 0 && parts.done;
  Part part;
  for (int64_t batches = 1;; ++batches) {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, pipeline->Next());
    if (!batch.has_value()) return part;
    MILLRACE_RETURN_IF_ERROR(progress.Health());
    progress.Enter(step, -1, collectives::Phase::kBackward);
    MILLRACE_ASSIGN_OR_RETURN(Network* const network,
                              parts.backend->Compile(batch->num_rows(), NetworkUse::kEvaluation));
    const StepInput input = InputOf(parts.model, *pipeline, *batch);
    MILLRACE_RETURN_IF_ERROR(network->Forward(input));
    MILLRACE_ASSIGN_OR_RETURN(const StepResult result, network->Result());
    part.sums.correct += result.correct;
    part.sums.in_top5 += result.in_top5;
    part.sums.error_sum += result.error_sum;
    part.sums.total += result.valid;
    part.sums.loss_sum += result.loss_sum;
    if (IsBinary(loss)) {
      MILLRACE_ASSIGN_OR_RETURN(const auto output, network->output(0));
      part.scores.Add(loss, output, input);
    }
    progress.Enter(step, -1, collectives::Phase::kReading);
    if (tells) parts.done(batches, static_cast<int64_t>(pipeline->length().batches));
  }
}

}  // namespace

absl::Status CheckIsOnePass(const pipeline::StreamLength& length) {
  if (length.infinite) {
    return absl::InvalidArgumentError("the pipeline repeats for ever; evaluation is one pass");
  }
  if (length.known && length.batches == 0) {
    return absl::InvalidArgumentError("there is nothing to evaluate on");
  }
  return absl::OkStatus();
}

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

absl::StatusOr<Evaluation> Evaluate(const EvaluationParts& parts,
                                    collectives::Communicator& communicator,
                                    collectives::Progress& progress, int64_t step) {
  absl::StatusOr<Part> part = EvaluateOwnPart(parts, communicator, progress, step);
  MILLRACE_RETURN_IF_ERROR(progress.Health());
  const Waiting waiting(&progress, step);
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator, Annotate(part.status(), parts.plan_path)));
  Evaluation& whole = part->sums;
  std::array<int64_t, 3> counts = {whole.correct, whole.total, whole.in_top5};
  std::array<double, 2> sums = {whole.loss_sum, whole.error_sum};
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator, std::span<int64_t>(counts)));
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator, std::span<double>(sums)));
  whole.correct = counts[0];
  whole.total = counts[1];
  whole.in_top5 = counts[2];
  whole.loss_sum = sums[0];
  whole.error_sum = sums[1];
  if (IsBinary(parts.model.losses[0])) {
    MILLRACE_ASSIGN_OR_RETURN(whole.auc, AucOverRanks(communicator, std::move(part->scores)));
  }
  return whole;
}

EvaluationLine LineOf(const Evaluation& evaluation, const Loss& loss) {
  const double total = static_cast<double>(std::max<int64_t>(1, evaluation.total));
  EvaluationLine line;
  line.correct = evaluation.correct;
  line.total = evaluation.total;
  line.mean_loss = evaluation.loss_sum / total;
  if (loss.kind == LossKind::kSoftmaxCrossEntropy && loss.classes() >= kTop5Classes) {
    line.in_top5 = evaluation.in_top5;
  }
  if (loss.is_regression()) line.mean_error = evaluation.error_sum / total;
  line.auc = evaluation.auc;
  return line;
}

}  // namespace millrace::trainer
