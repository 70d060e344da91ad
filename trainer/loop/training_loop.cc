// The training loop. Each step:
//   wait for the next batch of the pipeline
//   tell the other ranks (one tiny reduction) whether a rank failed or was asked to stop, so that
//     all of them leave the loop at the same step
//   forward, loss, backward: every gradient goes into the reducer as soon as it is there
//   the optimizer, with the same sums and so the same bits on every rank
// A step may have several batches (accumulate_steps); a checkpoint is always the end of a whole
// step. If sums come late (stale_steps), a step is done when its sums are used: a checkpoint holds
// no step that is under way, and a run that continues computes it again. If a rank cannot announce
// a failure that way (its compute library or a collective call fails in the middle of a step), it
// tells the ranks that wait for its gradients (Strategy::Leave), and ends the group by Abort, so
// that no peer waits for ever.

#include "trainer/loop/training_loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/weights_digest.h"
#include "trainer/loop/evaluate.h"
#include "trainer/optimizer/loss_scale.h"
#include "trainer/ranks/agree.h"

namespace millrace::trainer {

using collectives::Communicator;
using collectives::Phase;
using collectives::StepOutcome;

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Gives the weights of each model the values of their average, if there is one, and the average
// theirs. The backend knows the memory of the weights, so values move, not memory.
absl::Status SwapWithAverages(Session& session) {
  for (TrainedModel& trained : session.models) {
    if (trained.average != nullptr) MILLRACE_RETURN_IF_ERROR(trained.average->Swap());
  }
  return absl::OkStatus();
}

void AppendTensors(TrainedModel& trained, std::vector<collectives::NamedTensor>& tensors) {
  for (size_t i = 0; i < trained.weights.size(); ++i) {
    const Parameter& parameter = trained.model.parameters[i];
    tensors.push_back({parameter.name, {trained.weights[i].data(), DType::kF32, parameter.shape}});
  }
  for (size_t i = 0; i < trained.buffers.size(); ++i) {
    const Buffer& buffer = trained.model.buffers[i];
    tensors.push_back({buffer.name, {trained.buffers[i].data(), DType::kF32, buffer.shape}});
  }
}

}  // namespace

absl::StatusOr<TrainOutcome> TrainingLoop::Run() {
  log_.PrintStart();
  observed_.SetFigures(log_.figures());
  if (!options_.trace_file.empty()) {
    trace_.emplace(TraceOptions{options_.trace_file, options_.trace_time,
                                !options_.timeline_file.empty(), options_.warn},
                   session_.train_pipeline(), *guard_.timeline());
  }
  const bool finished_before = session_.state.step >= session_.steps.total_steps;
  while (!IsOver() && !outcome_.stopped) {
    MILLRACE_RETURN_IF_ERROR(Step());
  }
  if (finished_before && session_.eval_plan) MILLRACE_RETURN_IF_ERROR(EvaluateNow());
  MILLRACE_RETURN_IF_ERROR(saver_.Save(place_));
  MILLRACE_RETURN_IF_ERROR(saver_.Finish(place_));
  MILLRACE_RETURN_IF_ERROR(Finish());
  return outcome_;
}

// Also makes the checks of a step, so that bad data is announced to the other ranks.
absl::Status TrainingLoop::Check(const absl::StatusOr<std::optional<TrainBatch>>& batch) const {
  absl::Status status = batch.status();
  if (status.ok() && !batch->has_value()) {
    status = absl::OutOfRangeError(absl::StrCat("the pipeline ended after ", begun_, " steps"));
  }
  if (status.ok()) status = batch_step_->Check(**batch);
  return Annotate(status, session_.job.train_path);
}

// The next batch, the same on all ranks; nullopt when some rank was asked to stop.
absl::StatusOr<std::optional<TrainBatch>> TrainingLoop::AwaitBatch(RunningStep& running,
                                                                   bool is_first) {
  const Clock::time_point start = Clock::now();
  const auto step = static_cast<int64_t>(begun_);
  place_ = step;
  guard_.progress().Enter(step, -1, Phase::kReading);
  absl::StatusOr<std::optional<TrainBatch>> batch = NextBatch(session_);
  running.counted.wait_seconds += SecondsSince(start);
  const absl::Status mine = Check(batch);
  const bool stop = options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  guard_.progress().Enter(step, -1, Phase::kWaiting);
  MILLRACE_ASSIGN_OR_RETURN(const Told told, TellPeers(!mine.ok(), stop, is_first));
  guard_.progress().Enter(step, -1, Phase::kBackward);
  if (told.failed) return AgreeOnStatus(communicator_, mine);
  if (told.stop) return std::nullopt;
  if (told.trace_is_over) MILLRACE_RETURN_IF_ERROR(WriteTrace());
  // The reducer reports its buckets from the next one on.
  if (!session_.model.parameters.empty()) guard_.progress().Enter(step, 0, Phase::kBackward);
  return batch;
}

// Each batch needs this exchange anyway. That of a step's first batch also tells how long each rank
// waited in the step before: for these exchanges to begin, for its sums, and for those of layers.
absl::StatusOr<TrainingLoop::Told> TrainingLoop::TellPeers(bool failed, bool stop,
                                                           bool begins_step) {
  const auto ranks = static_cast<size_t>(communicator_.size());
  flags_.assign(2 + ranks + (trace_ ? 1 : 0), 0);
  flags_[0] = failed ? 1 : 0;
  flags_[1] = stop ? 1 : 0;
  // Rank 0's clock decides for all.
  if (trace_) flags_.back() = communicator_.rank() == 0 && trace_->IsDue() ? 1 : 0;
  if (begins_step) {
    flags_[2 + communicator_.rank()] =
        peers_seconds_ + session_.main().strategy->counters().last_finish_seconds;
    if (session_.sums != nullptr) flags_[2 + communicator_.rank()] += session_.sums->TakeSeconds();
    peers_seconds_ = 0;
  }
  const Clock::time_point start = Clock::now();
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, flags_));
  peers_seconds_ += SecondsSince(start);
  if (begins_step) log_.AddWaits(std::span(flags_).subspan(2, ranks));
  return Told{flags_[0] != 0, flags_[1] != 0, trace_ && flags_.back() != 0};
}

absl::Status TrainingLoop::Step() {
  const Clock::time_point start = Clock::now();
  RunningStep step;
  step.statistics.resize(session_.models.size());
  MILLRACE_ASSIGN_OR_RETURN(const bool complete, RunBatches(step));
  if (!complete) {
    outcome_.stopped = true;
    return absl::OkStatus();
  }
  step.counted.seconds = SecondsSince(start);
  under_way_.push_back(std::move(step));
  ++begun_;
  for (size_t i = 0; i < session_.main().strategy->num_ready(); ++i) {
    MILLRACE_RETURN_IF_ERROR(Update(i));
  }
  if (communicator_.rank() == 0) watch_.Begin();
  return absl::OkStatus();
}

absl::StatusOr<bool> TrainingLoop::RunBatches(RunningStep& step) {
  const uint64_t batches = session_.steps.BatchesOf(begun_);
  for (uint64_t i = 0; i < session_.steps.accumulate; ++i) {
    if (i >= batches) {
      MILLRACE_RETURN_IF_ERROR(FinishEmptyBatch());
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<TrainBatch> batch, AwaitBatch(step, i == 0));
    if (!batch.has_value()) return false;
    MILLRACE_RETURN_IF_ERROR(batch_step_->Run(*batch, begun_, step));
    if (session_.device != nullptr) {
      MILLRACE_RETURN_IF_ERROR(AverageStatistics(step, Phase::kBackward));
    }
    MILLRACE_RETURN_IF_ERROR(batch_step_->Finish());
  }
  return true;
}

absl::Status TrainingLoop::FinishEmptyBatch() {
  for (const TrainedModel& trained : session_.models) {
    for (int pass = 0; pass < trained.passes; ++pass) {
      MILLRACE_RETURN_IF_ERROR(trained.strategy->FinishEmptyBatch());
    }
  }
  return absl::OkStatus();
}

// Comes before the weights change, so that the loss of a rank here leaves a whole step; and while a
// device is still at the backward pass.
absl::Status TrainingLoop::AverageStatistics(RunningStep& step, Phase after) {
  if (session_.model.buffers.empty()) return absl::OkStatus();
  const Waiting waiting(&guard_.progress(), place_, after);
  for (BatchStatistics& statistics : step.statistics) {
    MILLRACE_RETURN_IF_ERROR(statistics.AverageOverRanks(communicator_));
  }
  return absl::OkStatus();
}

absl::Status TrainingLoop::Update(size_t i) {
  const Clock::time_point start = Clock::now();
  TrainState& state = session_.state;
  const auto number = static_cast<int64_t>(state.step);
  RunningStep step = std::move(under_way_.front());
  under_way_.pop_front();
  MILLRACE_RETURN_IF_ERROR(AverageStatistics(step, Phase::kUpdating));
  guard_.progress().Enter(number, -1, Phase::kUpdating);
  StepOutcome outcome;
  for (size_t m = 0; m < session_.models.size(); ++m) {
    TrainedModel& trained = session_.models[m];
    const UpdateStep update = {number, state.updates + 1, trained.schedule->RateAt(state.step)};
    MILLRACE_ASSIGN_OR_RETURN(outcome, trained.strategy->Apply(i, update, trained.weights));
    if (outcome.skip) continue;
    step.statistics[m].Update(trained.model, trained.buffers);
    if (trained.average != nullptr) {
      MILLRACE_RETURN_IF_ERROR(trained.average->Add(update.count));
    }
  }
  state.resume_token = std::move(step.resume_token);
  ++state.step;
  state.test_accuracy.reset();
  if (!outcome.skip) ++state.updates;
  if (state.step % session_.steps.steps_per_epoch == 0) ++state.epoch;
  step.counted.seconds += SecondsSince(start);
  log_.AddStep(step.counted, outcome);
  AdaptThreads(step.counted);
  saver_.NoteLoss(log_.last_loss() + log_.last_generator_loss(), step.bad_layer);
  if (state.loss_scale) {
    UpdateLossScale(session_.job.job.loss_scaling(), outcome.skip, *state.loss_scale);
  }
  MILLRACE_RETURN_IF_ERROR(CountSkips(outcome.skip));
  return AfterStep();
}

void TrainingLoop::AdaptThreads(const RunLog::Step& counted) {
  const int before = threads_.limit();
  const int limit = threads_.AddStep(counted.seconds, counted.wait_seconds);
  if (limit != before) session_.train_pipeline().SetThreadLimit(limit);
}

// All ranks skip the same steps.
absl::Status TrainingLoop::CountSkips(bool skipped) {
  if (!skipped) {
    skipped_in_a_row_ = 0;
    return absl::OkStatus();
  }
  ++outcome_.skipped;
  ++skipped_in_a_row_;
  const std::string what =
      absl::StrCat("step ", session_.state.step, ": the gradients are not finite");
  if (communicator_.rank() == 0 && options_.warn) {
    const auto& scale = session_.state.loss_scale;
    const std::string next =
        scale ? absl::StrCat(", and the loss scale is now ", scale->scale) : "";
    options_.warn(what + "; the step is skipped" + next);
  }
  const uint64_t most = session_.job.job.reduction().max_skipped_steps();
  if (most == 0 || skipped_in_a_row_ <= most) return absl::OkStatus();
  return collectives::MarkAgreed(absl::OutOfRangeError(
      absl::StrCat(what, ", as those of ", skipped_in_a_row_ - 1,
                   " before it; max_skipped_steps is ", most, saver_.LastGood())));
}

absl::Status TrainingLoop::TellOfWeights() {
  if (!options_.on_weights) return absl::OkStatus();
  for (TrainedModel& trained : session_.models) {
    MILLRACE_RETURN_IF_ERROR(trained.FetchWeights());
    options_.on_weights(session_.state.step, trained.weights);
    MILLRACE_RETURN_IF_ERROR(trained.StoreWeights());
  }
  return absl::OkStatus();
}

absl::Status TrainingLoop::CompareWeights() {
  const auto every = static_cast<int64_t>(session_.job.job.reduction().digest_every());
  const auto step = static_cast<int64_t>(session_.state.step);
  if (every == 0 || step % every != 0) return absl::OkStatus();
  for (TrainedModel& trained : session_.models) MILLRACE_RETURN_IF_ERROR(trained.FetchWeights());
  std::vector<collectives::NamedTensor> weights;
  for (TrainedModel& trained : session_.models) AppendTensors(trained, weights);
  const Waiting waiting = Wait();
  const collectives::WeightsWatch watch(every);
  return watch.AfterStep(step, communicator_, weights);
}

absl::Status TrainingLoop::AfterStep() {
  const TrainState& state = session_.state;
  const Job& job = session_.job.job;
  const bool last = state.step == session_.steps.total_steps;
  if (communicator_.rank() == 0 && options_.progress) {
    options_.progress(state.step, session_.steps.total_steps);
  }
  MILLRACE_RETURN_IF_ERROR(TellOfWeights());
  MILLRACE_RETURN_IF_ERROR(CompareWeights());
  const bool epoch_end = state.step % session_.steps.steps_per_epoch == 0;
  if (last || state.step % job.log_every_steps() == 0) MILLRACE_RETURN_IF_ERROR(Log());
  observed_.SetFigures(log_.figures());
  if (session_.eval_plan && (epoch_end || last)) MILLRACE_RETURN_IF_ERROR(EvaluateNow());
  const CheckpointPolicy& policy = job.checkpoint();
  const bool by_step = policy.every_steps() > 0 && state.step % policy.every_steps() == 0;
  const bool by_epoch =
      policy.every_epochs() > 0 && epoch_end && state.epoch % policy.every_epochs() == 0;
  return by_step || by_epoch ? saver_.Save(place_) : absl::OkStatus();
}

absl::Status TrainingLoop::Log() {
  const RunLog::Window mine = log_.window();
  std::array<double, 2> losses = {mine.mean_loss, mine.mean_generator_loss};
  std::array<double, 1> wait = {mine.wait_seconds};
  {
    const Waiting waiting = Wait();
    MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator_, std::span<double>(losses)));
    // Weights too: behind a ReLU, which makes a zero of NaN, the loss stays finite.
    MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, saver_.CheckFinite()));
    MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, wait));
  }
  log_.PrintWindow({losses[0], losses[1], wait[0]});
  return absl::OkStatus();
}

absl::Status TrainingLoop::EvaluateNow() {
  watch_.Pause();
  EvaluationParts parts = EvaluationPartsOf(session_);
  parts.threads = threads_.settled();
  parts.done = options_.evaluation_progress;
  for (TrainedModel& trained : session_.models) MILLRACE_RETURN_IF_ERROR(trained.StoreBuffers());
  MILLRACE_RETURN_IF_ERROR(SwapWithAverages(session_));
  const absl::StatusOr<Evaluation> evaluated =
      Evaluate(parts, communicator_, guard_.progress(), place_);
  MILLRACE_RETURN_IF_ERROR(SwapWithAverages(session_));
  MILLRACE_RETURN_IF_ERROR(evaluated.status());
  const Evaluation& evaluation = *evaluated;
  outcome_.test_accuracy = evaluation.accuracy();
  outcome_.test_loss = LineOf(evaluation, session_.main().model.losses[0]).mean_loss;
  session_.state.test_accuracy = evaluation.accuracy();
  log_.PrintEvaluation(evaluation);
  watch_.Resume();
  return absl::OkStatus();
}

absl::Status TrainingLoop::WriteTrace() {
  const Waiting waiting = Wait();
  return trace_->Write(communicator_);
}

absl::Status TrainingLoop::Finish() {
  if (trace_ && !trace_->written()) MILLRACE_RETURN_IF_ERROR(WriteTrace());
  const collectives::ReducerCounters counters = session_.main().strategy->counters();
  const RunLog::Fractions mine = log_.fractions(counters);
  std::array<double, 2> losses = {log_.last_loss(), log_.last_generator_loss()};
  std::array<double, 2> fractions = {mine.data_wait, mine.exposed};
  {
    const Waiting waiting = Wait();
    MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator_, std::span<double>(losses)));
    MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, fractions));
  }
  guard_.progress().Enter(-1, -1, Phase::kUpdating);  // no longer in a step
  outcome_.reduction = counters;
  outcome_.straggler = log_.straggler();
  outcome_.checkpoint = saver_.newest();
  outcome_.last_loss = losses[0];
  outcome_.last_generator_loss = losses[1];
  outcome_.wait_fraction = fractions[0];
  outcome_.steps = session_.state.step;
  const auto& refused = threads_.refused();
  const int most_threads = refused.has_value() ? threads_.settled() : 0;
  log_.PrintTotal(outcome_, fractions[1],
                  watch_.Finish(communicator_.size(), std::max(1, options_.replicas), most_threads),
                  threads_.Describe(session_.cores.per_rank));
  return absl::OkStatus();
}

}  // namespace millrace::trainer
