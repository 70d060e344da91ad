#include <array>

#include "base/status.h"
#include "trainer/agree.h"
#include "trainer/session_internal.h"

namespace millrace::trainer {
namespace {

// This rank's share. No collective call is inside, so an error here holds up nobody.
absl::StatusOr<Evaluation> EvaluateShare(Session& session,
                                         const collectives::Communicator& communicator) {
  pipeline::OpenOptions options;
  options.rank = communicator.rank();
  options.world = communicator.size();
  MILLRACE_ASSIGN_OR_RETURN(const auto pipeline,
                            pipeline::Pipeline::Open(*session.eval_plan, session.context, options));
  MILLRACE_RETURN_IF_ERROR(CheckFields(session.model, pipeline->schema()));
  if (pipeline->length().infinite) {
    return absl::InvalidArgumentError("the pipeline repeats for ever; evaluation is one pass");
  }
  Evaluation share;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, pipeline->Next());
    if (!batch.has_value()) return share;
    MILLRACE_ASSIGN_OR_RETURN(const StepResult result,
                              session.backend->Evaluate(InputOf(session.model, *batch)));
    share.correct += result.correct;
    share.total += result.valid;
    share.loss_sum += result.loss_sum;
  }
}

}  // namespace

StepInput InputOf(const Model& model, const pipeline::Batch& batch) {
  StepInput input;
  input.images = batch.Find(model.input_field);
  input.labels = batch.Find(model.label_field);
  input.valid = batch.valid();
  input.global_valid_rows = batch.num_global_valid_rows();
  input.ids = batch.ids();
  return input;
}

absl::StatusOr<Evaluation> Evaluate(Session& session, collectives::Communicator& communicator) {
  absl::StatusOr<Evaluation> share = EvaluateShare(session, communicator);
  MILLRACE_RETURN_IF_ERROR(
      AgreeOnStatus(communicator, Annotate(share.status(), session.job.eval_path)));
  std::array<int64_t, 2> counts = {share->correct, share->total};
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator, std::span<int64_t>(counts)));
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator, std::span<double>(&share->loss_sum, 1)));
  share->correct = counts[0];
  share->total = counts[1];
  return share;
}

}  // namespace millrace::trainer
