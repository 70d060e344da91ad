#include <cmath>

#include "base/status.h"
#include "trainer/loop/batch_step.h"
#include "trainer/loop/evaluate.h"

namespace millrace::trainer {
namespace {

class SupervisedStep final : public BatchStep {
 public:
  SupervisedStep(Session& session, const collectives::Communicator& communicator)
      : session_(session), communicator_(communicator) {}

  absl::Status Check(const TrainBatch& batch) override {
    const Model& model = session_.main().model;
    return CheckStepInput(model, InputOf(model, session_.train_pipeline(), batch.host));
  }
  absl::Status Run(const TrainBatch& batch, uint64_t number, RunningStep& step) override;
  absl::Status Finish() override { return session_.main().strategy->Finish(); }

 private:
  Session& session_;
  const collectives::Communicator& communicator_;
};

// Gradients are those of the sum over this rank's rows. The reducer divides by the rows of all
// batches of the step, which rank 0 sets.
absl::Status SupervisedStep::Run(const TrainBatch& batch, uint64_t number, RunningStep& step) {
  TrainedModel& trained = session_.main();
  const pipeline::Batch& host = batch.host;
  const int64_t rows = host.num_global_valid_rows();
  trained.strategy->SetRows(communicator_.rank() == 0 ? rows : 0);
  StepInput input = InputOf(trained.model, session_.train_pipeline(), host);
  AddDeviceFields(trained.model, batch, input);
  input.global_valid_rows = 1;
  input.seed = session_.job.job.seed();
  input.step = number;
  if (session_.state.loss_scale) input.loss_scale = session_.state.loss_scale->scale;
  MILLRACE_ASSIGN_OR_RETURN(Network* const network,
                            trained.backend->Compile(host.num_rows(), NetworkUse::kTraining));
  MILLRACE_RETURN_IF_ERROR(BeginUse(batch, session_));
  MILLRACE_RETURN_IF_ERROR(network->Forward(input));
  MILLRACE_RETURN_IF_ERROR(EndUse(batch, session_));
  MILLRACE_RETURN_IF_ERROR(
      network->Backward([&](size_t i) { return trained.strategy->MarkReady(i); }));
  MILLRACE_ASSIGN_OR_RETURN(const StepResult result, network->Result());
  step.counted.rows += rows;
  step.counted.loss_sum += result.loss_sum;
  step.statistics[0].Add(network->statistics(), result.valid);
  if (!std::isfinite(result.loss_sum)) step.bad_layer = network->FirstNonFinite();
  step.resume_token = host.resume_token();
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<BatchStep> MakeBatchStep(Session& session,
                                         const collectives::Communicator& communicator) {
  return session.job.job.has_adversarial() ? MakeAdversarialStep(session, communicator)
                                           : MakeSupervisedStep(session, communicator);
}

std::unique_ptr<BatchStep> MakeSupervisedStep(Session& session,
                                              const collectives::Communicator& communicator) {
  return std::make_unique<SupervisedStep>(session, communicator);
}

}  // namespace millrace::trainer
