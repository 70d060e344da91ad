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

#include "trainer/train.h"

#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/peer_lost.h"
#include "collectives/weights_digest.h"
#include "trainer/loop/batch_statistics.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/parts.h"
#include "trainer/loop/run_log.h"
#include "trainer/loop/run_saver.h"
#include "trainer/loop/session.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/guard.h"
#include "trainer/ranks/report_failure.h"
#include "trainer/ranks/waiting.h"

namespace millrace::trainer {

using collectives::Communicator;
using collectives::Phase;

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A step whose sums have not been used yet, on this rank.
struct RunningStep {
  std::string resume_token;  // of its last batch
  RunLog::Step counted;
  BatchStatistics statistics;
  std::string bad_layer;  // the first with values that are not finite, if the loss is not
};

// While it lives, the session's weights have the values of their average, if there is one, and the
// average has theirs. The backend knows the memory of the weights, so values move, not memory.
class Averaged {
 public:
  explicit Averaged(Session& session) : session_(session) { Swap(); }
  ~Averaged() { Swap(); }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  void Swap() {
    if (session_.average) session_.average->SwapWith(session_.weights);
  }

  Session& session_;
};

class Loop {
 public:
  Loop(const TrainOptions& options, Communicator& communicator, Guard& guard, Session& session)
      : options_(options),
        communicator_(communicator),
        guard_(guard),
        session_(session),
        log_(options, communicator, session),
        saver_(communicator, guard, session),
        begun_(session.state.step) {}

  absl::StatusOr<TrainOutcome> Run();

  RunSaver& saver() { return saver_; }

 private:
  // Reports that this rank waits while ranks talk to each other outside of the reducer.
  Waiting Wait() const { return Waiting(&guard_.progress(), place_); }
  absl::StatusOr<std::optional<pipeline::Batch>> NextBatch(RunningStep& running, bool is_first);
  // True if at least one rank said so.
  struct Told {
    bool failed = false;
    bool stop = false;
  };
  absl::StatusOr<Told> TellPeers(bool failed, bool stop, bool begins_step);
  absl::Status Check(const absl::StatusOr<std::optional<pipeline::Batch>>& batch) const;
  absl::Status Step();
  // Returns false if some rank was asked to stop.
  absl::StatusOr<bool> RunBatches(RunningStep& step);
  absl::Status Compute(const pipeline::Batch& batch, RunningStep& step);
  // Updates the weights by the sums of the `i`th step that is ready.
  absl::Status Update(size_t i);
  absl::Status AverageStatistics(RunningStep& step);
  absl::Status CountSkips(bool skipped);
  absl::Status CompareWeights() const;
  absl::Status Log();
  absl::Status AfterStep();
  absl::Status EvaluateNow();
  absl::Status Finish();

  const TrainOptions& options_;
  Communicator& communicator_;
  Guard& guard_;
  Session& session_;
  RunLog log_;
  RunSaver saver_;
  TrainOutcome outcome_;
  uint64_t begun_;     // number of steps, with those that are under way
  int64_t place_ = 0;  // the newest step that this rank has said to be in
  std::deque<RunningStep> under_way_;
  double peers_seconds_ = 0;  // time until the other ranks had the step's batches too
  uint64_t skipped_in_a_row_ = 0;
  std::vector<double> flags_;  // of NextBatch
};

absl::StatusOr<TrainOutcome> Loop::Run() {
  log_.PrintStart();
  const bool finished_before = session_.state.step >= session_.steps.total_steps;
  while (begun_ < session_.steps.total_steps && !outcome_.stopped) {
    MILLRACE_RETURN_IF_ERROR(Step());
  }
  if (finished_before && session_.eval_plan) MILLRACE_RETURN_IF_ERROR(EvaluateNow());
  MILLRACE_RETURN_IF_ERROR(saver_.Save(place_));
  MILLRACE_RETURN_IF_ERROR(saver_.Finish(place_));
  MILLRACE_RETURN_IF_ERROR(Finish());
  return outcome_;
}

// Also makes the checks of a step, so that bad data is announced to the other ranks.
absl::Status Loop::Check(const absl::StatusOr<std::optional<pipeline::Batch>>& batch) const {
  absl::Status status = batch.status();
  if (status.ok() && !batch->has_value()) {
    status = absl::OutOfRangeError(absl::StrCat("the pipeline ended after ", begun_, " steps"));
  }
  if (status.ok())
    status = CheckStepInput(session_.model, InputOf(session_.model, *session_.train, **batch));
  return Annotate(status, session_.job.train_path);
}

// The next batch, the same on all ranks; nullopt when some rank was asked to stop.
absl::StatusOr<std::optional<pipeline::Batch>> Loop::NextBatch(RunningStep& running,
                                                               bool is_first) {
  const Clock::time_point start = Clock::now();
  const auto step = static_cast<int64_t>(begun_);
  place_ = step;
  guard_.progress().Enter(step, -1, Phase::kReading);
  absl::StatusOr<std::optional<pipeline::Batch>> batch = session_.train->Next();
  running.counted.wait_seconds += SecondsSince(start);
  const absl::Status mine = Check(batch);
  const bool stop = options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  guard_.progress().Enter(step, -1, Phase::kWaiting);
  MILLRACE_ASSIGN_OR_RETURN(const Told told, TellPeers(!mine.ok(), stop, is_first));
  guard_.progress().Enter(step, -1, Phase::kBackward);
  if (told.failed) return AgreeOnStatus(communicator_, mine);
  if (told.stop) return std::nullopt;
  // The reducer reports its buckets from the next one on.
  if (!session_.model.parameters.empty()) guard_.progress().Enter(step, 0, Phase::kBackward);
  return batch;
}

// Each batch needs this exchange anyway. That of a step's first batch also tells how long each rank
// waited in the step before: for these exchanges to begin, and for its sums.
absl::StatusOr<Loop::Told> Loop::TellPeers(bool failed, bool stop, bool begins_step) {
  const auto ranks = static_cast<size_t>(communicator_.size());
  flags_.assign(2 + ranks, 0);
  flags_[0] = failed ? 1 : 0;
  flags_[1] = stop ? 1 : 0;
  if (begins_step) {
    flags_[2 + communicator_.rank()] =
        peers_seconds_ + session_.strategy->counters().last_finish_seconds;
    peers_seconds_ = 0;
  }
  const Clock::time_point start = Clock::now();
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, flags_));
  peers_seconds_ += SecondsSince(start);
  if (begins_step) log_.AddWaits(std::span(flags_).subspan(2));
  return Told{flags_[0] != 0, flags_[1] != 0};
}

absl::Status Loop::Step() {
  const Clock::time_point start = Clock::now();
  RunningStep step;
  MILLRACE_ASSIGN_OR_RETURN(const bool complete, RunBatches(step));
  if (!complete) {
    outcome_.stopped = true;
    return absl::OkStatus();
  }
  step.counted.seconds = SecondsSince(start);
  under_way_.push_back(std::move(step));
  ++begun_;
  for (size_t i = 0; i < session_.strategy->num_ready(); ++i) {
    MILLRACE_RETURN_IF_ERROR(Update(i));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Loop::RunBatches(RunningStep& step) {
  const uint64_t batches = session_.steps.BatchesOf(begun_);
  for (uint64_t i = 0; i < session_.steps.accumulate; ++i) {
    if (i >= batches) {
      MILLRACE_RETURN_IF_ERROR(session_.strategy->FinishEmptyBatch());
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<pipeline::Batch> batch, NextBatch(step, i == 0));
    if (!batch.has_value()) return false;
    MILLRACE_RETURN_IF_ERROR(Compute(*batch, step));
  }
  return true;
}

// Gradients are those of the sum over this rank's rows. The reducer divides by the rows of all
// batches of the step, which rank 0 sets.
absl::Status Loop::Compute(const pipeline::Batch& batch, RunningStep& step) {
  Session& session = session_;
  const int64_t rows = batch.num_global_valid_rows();
  session.strategy->SetRows(communicator_.rank() == 0 ? rows : 0);
  StepInput input = InputOf(session.model, *session.train, batch);
  input.global_valid_rows = 1;
  input.seed = session.job.job.seed();
  input.step = begun_;
  const auto ready = [&session](size_t i) { return session.strategy->MarkReady(i); };
  MILLRACE_ASSIGN_OR_RETURN(Network* const network,
                            session.backend->Compile(batch.num_rows(), NetworkUse::kTraining));
  MILLRACE_ASSIGN_OR_RETURN(const StepResult result, network->Forward(input));
  MILLRACE_RETURN_IF_ERROR(network->Backward(ready));
  MILLRACE_RETURN_IF_ERROR(session.strategy->Finish());
  step.counted.rows += rows;
  step.counted.loss_sum += result.loss_sum;
  step.statistics.Add(network->statistics(), result.valid);
  if (!std::isfinite(result.loss_sum)) step.bad_layer = network->FirstNonFinite();
  step.resume_token = batch.resume_token();
  return absl::OkStatus();
}

// Comes before the weights change, so that the loss of a rank here leaves a whole step.
absl::Status Loop::AverageStatistics(RunningStep& step) {
  if (session_.buffers.empty()) return absl::OkStatus();
  const Waiting waiting = Wait();
  return step.statistics.AverageOverRanks(communicator_);
}

absl::Status Loop::Update(size_t i) {
  const Clock::time_point start = Clock::now();
  TrainState& state = session_.state;
  const auto number = static_cast<int64_t>(state.step);
  RunningStep step = std::move(under_way_.front());
  under_way_.pop_front();
  MILLRACE_RETURN_IF_ERROR(AverageStatistics(step));
  guard_.progress().Enter(number, -1, Phase::kUpdating);
  const UpdateStep update = {number, state.updates + 1, session_.schedule->RateAt(state.step)};
  MILLRACE_ASSIGN_OR_RETURN(const collectives::StepOutcome outcome,
                            session_.strategy->Apply(i, update, session_.weights));
  if (!outcome.skip) step.statistics.Update(session_.model, session_.buffers);
  state.resume_token = std::move(step.resume_token);
  ++state.step;
  state.test_accuracy.reset();
  if (!outcome.skip) {
    ++state.updates;
    if (session_.average) session_.average->Add(state.updates, session_.weights);
  }
  if (state.step % session_.steps.steps_per_epoch == 0) ++state.epoch;
  step.counted.seconds += SecondsSince(start);
  log_.AddStep(step.counted, outcome);
  saver_.NoteLoss(log_.last_loss(), step.bad_layer);
  MILLRACE_RETURN_IF_ERROR(CountSkips(outcome.skip));
  return AfterStep();
}

// All ranks skip the same steps.
absl::Status Loop::CountSkips(bool skipped) {
  if (!skipped) {
    skipped_in_a_row_ = 0;
    return absl::OkStatus();
  }
  ++outcome_.skipped;
  ++skipped_in_a_row_;
  const std::string what =
      absl::StrCat("step ", session_.state.step, ": the gradients are not finite");
  if (communicator_.rank() == 0 && options_.warn) options_.warn(what + "; the step is skipped");
  const uint64_t most = session_.job.job.reduction().max_skipped_steps();
  if (most == 0 || skipped_in_a_row_ <= most) return absl::OkStatus();
  return collectives::MarkAgreed(absl::OutOfRangeError(
      absl::StrCat(what, ", as those of ", skipped_in_a_row_ - 1,
                   " before it; max_skipped_steps is ", most, saver_.LastGood())));
}

absl::Status Loop::CompareWeights() const {
  const auto every = static_cast<int64_t>(session_.job.job.reduction().digest_every());
  if (every == 0) return absl::OkStatus();
  std::vector<collectives::NamedTensor> weights;
  for (size_t i = 0; i < session_.weights.size(); ++i) {
    const Parameter& parameter = session_.model.parameters[i];
    weights.push_back({parameter.name, {session_.weights[i].data(), DType::kF32, parameter.shape}});
  }
  for (size_t i = 0; i < session_.buffers.size(); ++i) {
    const Buffer& buffer = session_.model.buffers[i];
    weights.push_back({buffer.name, {session_.buffers[i].data(), DType::kF32, buffer.shape}});
  }
  const Waiting waiting = Wait();
  const collectives::WeightsWatch watch(every);
  return watch.AfterStep(static_cast<int64_t>(session_.state.step), communicator_, weights);
}

absl::Status Loop::AfterStep() {
  const TrainState& state = session_.state;
  const Job& job = session_.job.job;
  const bool last = state.step == session_.steps.total_steps;
  if (communicator_.rank() == 0 && options_.progress) {
    options_.progress(state.step, session_.steps.total_steps);
  }
  if (options_.on_weights) options_.on_weights(state.step, session_.weights);
  MILLRACE_RETURN_IF_ERROR(CompareWeights());
  const bool epoch_end = state.step % session_.steps.steps_per_epoch == 0;
  if (last || state.step % job.log_every_steps() == 0) MILLRACE_RETURN_IF_ERROR(Log());
  if (session_.eval_plan && (epoch_end || last)) MILLRACE_RETURN_IF_ERROR(EvaluateNow());
  const CheckpointPolicy& policy = job.checkpoint();
  const bool by_step = policy.every_steps() > 0 && state.step % policy.every_steps() == 0;
  const bool by_epoch =
      policy.every_epochs() > 0 && epoch_end && state.epoch % policy.every_epochs() == 0;
  return by_step || by_epoch ? saver_.Save(place_) : absl::OkStatus();
}

absl::Status Loop::Log() {
  const RunLog::Window mine = log_.window();
  std::array<double, 1> loss = {mine.mean_loss};
  std::array<double, 1> wait = {mine.wait_seconds};
  {
    const Waiting waiting = Wait();
    MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator_, std::span<double>(loss)));
    if (!std::isfinite(loss[0])) {
      MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, saver_.CheckFinite()));
    }
    MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, wait));
  }
  log_.PrintWindow({loss[0], wait[0]});
  return absl::OkStatus();
}

absl::Status Loop::EvaluateNow() {
  const Averaged averaged(session_);
  MILLRACE_ASSIGN_OR_RETURN(
      const Evaluation evaluation,
      Evaluate(EvaluationPartsOf(session_), communicator_, guard_.progress(), place_));
  outcome_.test_accuracy = evaluation.accuracy();
  outcome_.test_loss = LineOf(evaluation, session_.model.losses[0]).mean_loss;
  session_.state.test_accuracy = evaluation.accuracy();
  log_.PrintEvaluation(evaluation);
  return absl::OkStatus();
}

absl::Status Loop::Finish() {
  const collectives::ReducerCounters counters = session_.strategy->counters();
  const RunLog::Fractions mine = log_.fractions(counters);
  std::array<double, 1> loss = {log_.last_loss()};
  std::array<double, 2> fractions = {mine.data_wait, mine.exposed};
  {
    const Waiting waiting = Wait();
    MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator_, std::span<double>(loss)));
    MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, fractions));
  }
  guard_.progress().Enter(-1, -1, Phase::kUpdating);  // no longer in a step
  outcome_.reduction = counters;
  outcome_.straggler = log_.straggler();
  outcome_.checkpoint = saver_.newest();
  outcome_.last_loss = loss[0];
  outcome_.wait_fraction = fractions[0];
  outcome_.steps = session_.state.step;
  log_.PrintTotal(outcome_, fractions[1]);
  return absl::OkStatus();
}

// The open parts of a run. Closing them may take long (reads that are on their way, a watchdog that
// waits for the other hosts), so the outcome of the run is reported before.
struct Held {
  std::unique_ptr<Guard> guard;
  std::unique_ptr<Session> session;
};

// Adds the lost peer's place, and the outcome of saving, to the error.
absl::Status AfterLoss(const TrainOptions& options, RunSaver& saver, Guard& guard,
                       const absl::Status& status) {
  const auto aborted = guard.AbortedBy(status);
  const auto lost = aborted ? aborted : collectives::PeerLostOf(status);
  if (!lost) return status;
  const std::string saved = saver.SaveAfterLoss(*lost);
  const std::string timeline = guard.WriteTimelineAfterLoss(*lost);
  // The rank that failed reports the reason, the others only this.
  if (aborted && guard.is_saver() && options.warn) {
    options.warn(absl::StrCat("another rank has failed; ", saved));
  }
  absl::Status told(status.code(), absl::StrCat(status.message(), "; ", saved, timeline));
  status.ForEachPayload(
      [&told](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  return told;
}

absl::StatusOr<TrainOutcome> Run(const TrainParts& parts, const TrainOptions& options,
                                 Communicator& communicator, Held& held) {
  MILLRACE_ASSIGN_OR_RETURN(held.guard, Guard::Make(options, communicator, parts.limits));
  Guard& guard = *held.guard;
  auto session = OpenSession(options, communicator, guard.progress(), parts.make_backend);
  if (!session.ok()) return guard.Explain(session.status());
  held.session = *std::move(session);
  held.session->write_checkpoint = parts.write_checkpoint;
  Loop loop(options, communicator, guard, *held.session);
  TrainOutcome outcome;
  absl::Status status = WithoutExceptions([&] {
    MILLRACE_ASSIGN_OR_RETURN(outcome, loop.Run());
    return guard.EndWell();
  });
  if (status.ok()) return outcome;
  status = guard.Explain(status);
  // Peers may be in a step that needs this rank.
  if (!IsAgreed(status)) held.session->strategy->Leave(status);
  return AfterLoss(options, loop.saver(), guard, status);
}

}  // namespace

absl::StatusOr<TrainOutcome> Train(const TrainOptions& options, Communicator& communicator) {
  return TrainWith(TrainParts(), options, communicator);
}

absl::StatusOr<TrainOutcome> TrainWith(const TrainParts& parts, const TrainOptions& options,
                                       Communicator& communicator) {
  TrainOutcome outcome;
  absl::Status status;
  {
    Held held;
    status = WithoutExceptions([&] {
      MILLRACE_ASSIGN_OR_RETURN(outcome, Run(parts, options, communicator, held));
      return absl::OkStatus();
    });
    if (status.ok()) return outcome;
    status = ReportFailure(options.report, communicator, std::move(status));
    if (held.guard != nullptr) held.guard->AwaitSaver();
    if (!IsAgreed(status) && !collectives::PeerLostOf(status)) {
      if (held.guard != nullptr) held.guard->Leave();
      communicator.Abort(status);
    }
  }
  // Every watchdog knows of a lost peer, and MPI would end the job before the others have reported
  // and saved. Unless this rank leaves, MPI would wait for the lost one at the end.
  if (!IsAgreed(status) && collectives::PeerLostOf(status)) communicator.Leave(status);
  return status;
}

}  // namespace millrace::trainer
