#include "trainer/loop/batch_gradients.h"

#include <cmath>

#include "base/status.h"
#include "trainer/loop/evaluate.h"

namespace millrace::trainer {

// Gradients are those of the sum over this rank's rows. The reducer divides by the rows of all
// batches of the step, which rank 0 sets.
absl::Status ComputeGradients(Session& session, const collectives::Communicator& communicator,
                              uint64_t number, const pipeline::Batch& batch, RunningStep& step) {
  TrainedModel& trained = session.main();
  const int64_t rows = batch.num_global_valid_rows();
  trained.strategy->SetRows(communicator.rank() == 0 ? rows : 0);
  StepInput input = InputOf(trained.model, *session.train, batch);
  input.global_valid_rows = 1;
  input.seed = session.job.job.seed();
  input.step = number;
  const auto ready = [&trained](size_t i) { return trained.strategy->MarkReady(i); };
  MILLRACE_ASSIGN_OR_RETURN(Network* const network,
                            trained.backend->Compile(batch.num_rows(), NetworkUse::kTraining));
  MILLRACE_ASSIGN_OR_RETURN(const StepResult result, network->Forward(input));
  MILLRACE_RETURN_IF_ERROR(network->Backward(ready));
  MILLRACE_RETURN_IF_ERROR(trained.strategy->Finish());
  step.counted.rows += rows;
  step.counted.loss_sum += result.loss_sum;
  step.statistics[0].Add(network->statistics(), result.valid);
  if (!std::isfinite(result.loss_sum)) step.bad_layer = network->FirstNonFinite();
  step.resume_token = batch.resume_token();
  return absl::OkStatus();
}

}  // namespace millrace::trainer
