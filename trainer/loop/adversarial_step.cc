// A step of a generator and a discriminator. Each batch has three backward passes, all by the same
// weights:
//   the discriminator's judgement of generated samples, as if they were real, goes through the
//     discriminator to the samples, and from there through the generator
//   the discriminator's judgement of generated samples
//   the discriminator's judgement of real samples
// The last two are two batches to the discriminator's reducer, which adds their gradients up. The
// generator's sums travel meanwhile.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/status.h"
#include "trainer/backend/loss.h"
#include "trainer/loop/batch_step.h"
#include "trainer/loop/noise.h"

namespace millrace::trainer {
namespace {

class AdversarialStep final : public BatchStep {
 public:
  AdversarialStep(Session& session, const collectives::Communicator& communicator)
      : session_(session),
        communicator_(communicator),
        spec_(session.job.job.adversarial()),
        discriminator_(session.models[0]),
        generator_(session.models[1]) {}

  absl::Status Check(const TrainBatch& batch) override {
    SetRows(batch.host);
    return CheckStepInput(discriminator_.model, RealInput(batch.host, 1));
  }
  absl::Status Run(const TrainBatch& from, uint64_t number, RunningStep& step) override;
  absl::Status Finish() override;

 private:
  const Loss& loss() const { return discriminator_.model.losses[0]; }
  // Makes room for as many samples as `batch` has rows.
  void SetRows(const pipeline::Batch& batch);
  // The rows of `batch` as those of any model.
  StepInput RowsOf(const pipeline::Batch& batch) const;
  // The discriminator's input: real samples, or generated ones, which are to be judged as `target`.
  StepInput RealInput(const pipeline::Batch& batch, double target);
  StepInput GeneratedInput(const pipeline::Batch& batch, std::span<const float> samples,
                           double target);
  ConstTensorView Target(double target);
  absl::StatusOr<Network*> Generate(const pipeline::Batch& batch, uint64_t number);
  absl::Status TrainGenerator(Network& discriminator, Network& generator);
  // The loss of the discriminator's last output against another target, whose gradient it is given.
  absl::StatusOr<StepResult> Judge(Network& discriminator, const StepInput& input, double target);
  absl::Status TrainDiscriminator(Network& network) {
    return network.Backward([this](size_t i) { return discriminator_.strategy->MarkReady(i); });
  }
  void Count(const StepResult& result, Network& network, RunningStep& step);

  Session& session_;
  const collectives::Communicator& communicator_;
  const Adversarial& spec_;
  TrainedModel& discriminator_;
  TrainedModel& generator_;
  int64_t rows_ = 0;
  uint64_t number_ = 0;  // of the step
  std::vector<float> noise_;
  std::vector<float> targets_;
  std::vector<float> gradient_;  // of the discriminator's output
};

void AdversarialStep::SetRows(const pipeline::Batch& batch) {
  rows_ = batch.num_rows();
  noise_.resize(generator_.model.input_shape(0).Prepend(rows_).num_elements());
  targets_.resize(loss().shape.Prepend(rows_).num_elements());
}

StepInput AdversarialStep::RowsOf(const pipeline::Batch& batch) const {
  StepInput input;
  input.valid = batch.valid();
  input.global_valid_rows = 1;  // the reducer divides
  input.ids = batch.ids();
  input.seed = session_.job.job.seed();
  input.step = number_;
  input.locate = [this](const SampleId& id) { return session_.train_pipeline().Locate(id); };
  return input;
}

ConstTensorView AdversarialStep::Target(double target) {
  std::ranges::fill(targets_, static_cast<float>(target));
  return {targets_.data(), DType::kF32, loss().shape.Prepend(rows_)};
}

StepInput AdversarialStep::RealInput(const pipeline::Batch& batch, double target) {
  StepInput input = RowsOf(batch);
  input.inputs.emplace_back(batch.Find(discriminator_.model.inputs[0].field));
  input.targets.push_back(Target(target));
  return input;
}

StepInput AdversarialStep::GeneratedInput(const pipeline::Batch& batch,
                                          std::span<const float> samples, double target) {
  StepInput input = RowsOf(batch);
  input.inputs.push_back(
      {samples.data(), DType::kF32, discriminator_.model.input_shape(0).Prepend(rows_)});
  input.targets.push_back(Target(target));
  return input;
}

absl::StatusOr<Network*> AdversarialStep::Generate(const pipeline::Batch& batch, uint64_t number) {
  FillNoise(spec_.noise(), session_.job.job.seed(), number, batch.ids(), noise_);
  StepInput input = RowsOf(batch);
  input.inputs.push_back(
      {noise_.data(), DType::kF32, generator_.model.input_shape(0).Prepend(rows_)});
  input.targets.emplace_back();
  MILLRACE_ASSIGN_OR_RETURN(Network* const network,
                            generator_.backend->Compile(rows_, NetworkUse::kTraining));
  MILLRACE_RETURN_IF_ERROR(network->Forward(input));
  return network;
}

// Begins after the judgement of the samples as real ones.
absl::Status AdversarialStep::TrainGenerator(Network& discriminator, Network& generator) {
  MILLRACE_RETURN_IF_ERROR(discriminator.Backward({}));
  MILLRACE_ASSIGN_OR_RETURN(const auto gradient, discriminator.input_gradient(0));
  MILLRACE_RETURN_IF_ERROR(generator.SetOutputGradient(0, gradient));
  return generator.Backward([this](size_t i) { return generator_.strategy->MarkReady(i); });
}

absl::StatusOr<StepResult> AdversarialStep::Judge(Network& discriminator, const StepInput& input,
                                                  double target) {
  MILLRACE_ASSIGN_OR_RETURN(const auto output, discriminator.output(0));
  gradient_.resize(output.size());
  const StepResult result = ComputeLoss(loss(), output, Target(target), input, gradient_);
  MILLRACE_RETURN_IF_ERROR(discriminator.SetOutputGradient(0, gradient_));
  return result;
}

void AdversarialStep::Count(const StepResult& result, Network& network, RunningStep& step) {
  step.counted.loss_sum += result.loss_sum;
  step.statistics[0].Add(network.statistics(), result.valid);
  if (!std::isfinite(result.loss_sum) && step.bad_layer.empty()) {
    step.bad_layer = network.FirstNonFinite();
  }
}

// The rows count once: the discriminator's loss is the sum of both judgements.
absl::Status AdversarialStep::Run(const TrainBatch& from, uint64_t number, RunningStep& step) {
  const pipeline::Batch& batch = from.host;
  number_ = number;
  SetRows(batch);
  const int64_t rows = communicator_.rank() == 0 ? batch.num_global_valid_rows() : 0;
  const bool is_flipped = IsFlipped(spec_.flip_probability(), session_.job.job.seed(), number);
  const double real = is_flipped ? 0 : spec_.real_label();
  const double generated = is_flipped ? spec_.real_label() : 0;
  generator_.strategy->SetRows(rows);
  discriminator_.strategy->SetRows(rows);

  MILLRACE_ASSIGN_OR_RETURN(Network* const generator, Generate(batch, number));
  MILLRACE_ASSIGN_OR_RETURN(Network* const network,
                            discriminator_.backend->Compile(rows_, NetworkUse::kInputGradients));
  MILLRACE_ASSIGN_OR_RETURN(const auto samples, generator->output(0));
  MILLRACE_RETURN_IF_ERROR(generator->Result().status());
  StepInput input = GeneratedInput(batch, samples, 1);
  MILLRACE_RETURN_IF_ERROR(network->Forward(input));
  MILLRACE_ASSIGN_OR_RETURN(const StepResult as_real, network->Result());
  step.counted.generator_loss_sum += as_real.loss_sum;
  step.statistics[1].Add(generator->statistics(), as_real.valid);
  MILLRACE_RETURN_IF_ERROR(TrainGenerator(*network, *generator));

  MILLRACE_ASSIGN_OR_RETURN(const StepResult judged, Judge(*network, input, generated));
  Count(judged, *network, step);
  MILLRACE_RETURN_IF_ERROR(TrainDiscriminator(*network));
  MILLRACE_RETURN_IF_ERROR(discriminator_.strategy->Finish());
  discriminator_.strategy->SetRows(0);
  MILLRACE_RETURN_IF_ERROR(network->Forward(RealInput(batch, real)));
  MILLRACE_ASSIGN_OR_RETURN(const StepResult of_real, network->Result());
  Count(of_real, *network, step);
  MILLRACE_RETURN_IF_ERROR(TrainDiscriminator(*network));
  step.counted.rows += batch.num_global_valid_rows();
  step.resume_token = batch.resume_token();
  return absl::OkStatus();
}

absl::Status AdversarialStep::Finish() {
  MILLRACE_RETURN_IF_ERROR(discriminator_.strategy->Finish());
  return generator_.strategy->Finish();
}

}  // namespace

std::unique_ptr<BatchStep> MakeAdversarialStep(Session& session,
                                               const collectives::Communicator& communicator) {
  return std::make_unique<AdversarialStep>(session, communicator);
}

}  // namespace millrace::trainer
