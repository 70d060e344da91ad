// The training loop. Each step:
//   wait for the next batch of the pipeline
//   tell the other ranks (one tiny reduction) whether somebody failed or was asked to stop, so that
//     all of them leave the loop at the same step
//   forward, loss, backward: every gradient goes into the reducer as soon as it is there
//   the optimizer, with the same sums and so the same bits on every rank
// A step may have several batches (accumulate_steps); what is saved is always the end of a whole one.
// Where sums come late (stale_steps) a step is done when its sums are used: what is under way is
// nowhere in a checkpoint, and a run that continues computes it again.
// What a rank cannot announce that way (its compute library or a collective call fails in the
// middle of a step) ends the group by Abort, so that no peer waits for ever.

#include "trainer/train.h"

#include <algorithm>
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
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/peer_lost.h"
#include "collectives/stragglers.h"
#include "collectives/weights_digest.h"
#include "trainer/agree.h"
#include "trainer/guard_internal.h"
#include "trainer/report.h"
#include "trainer/session_internal.h"
#include "trainer/waiting_internal.h"

namespace millrace::trainer {

using collectives::Communicator;
using collectives::Phase;

namespace {

using Clock = std::chrono::steady_clock;

// A wait for a rank that is worth a word with each line: more than what threads that share cores differ
// by anyway, and a part of the step.
bool IsNotable(double median_seconds, const StepTimes& times) {
  return median_seconds >= 1e-3 &&
         median_seconds * static_cast<double>(times.steps) >= 0.05 * times.step_seconds;
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A step whose sums have not been used yet, on this rank.
struct RunningStep {
  std::string resume_token;  // of its last batch
  int64_t rows = 0;          // over all ranks
  double loss_sum = 0;       // this rank's
  double seconds = 0;
  double wait_seconds = 0;  // of them, for batches
};

class Loop {
 public:
  Loop(const TrainOptions& options, Communicator& communicator, Guard& guard, Session& session)
      : options_(options),
        communicator_(communicator),
        guard_(guard),
        session_(session),
        saved_step_(session.resumed_from.empty() ? std::nullopt
                                                 : std::optional(session.state.step)),
        begun_(session.state.step),
        window_stragglers_(communicator.size()),
        total_stragglers_(communicator.size()) {
    outcome_.checkpoint = session.resumed_from;
  }

  absl::StatusOr<TrainOutcome> Run();

  // Saves the last whole step without the other ranks, where this rank is the lowest that is left.
  // Returns what became of it, for the user.
  std::string SaveAfterLoss(const collectives::PeerLost& lost);

 private:
  void Print(const std::string& line) const;
  // While ranks talk to each other outside of the reducer.
  Waiting Wait() const { return Waiting(&guard_.progress(), place_); }
  absl::StatusOr<std::optional<pipeline::Batch>> NextBatch(RunningStep& running, bool is_first);
  // What some rank said.
  struct Told {
    bool failed = false;
    bool stop = false;
  };
  absl::StatusOr<Told> TellPeers(bool failed, bool stop, bool begins_step);
  absl::Status Check(const absl::StatusOr<std::optional<pipeline::Batch>>& batch) const;
  absl::Status Step();
  // False: some rank was asked to stop.
  absl::StatusOr<bool> RunBatches(RunningStep& step);
  absl::Status Compute(const pipeline::Batch& batch, RunningStep& step);
  absl::Status Update(collectives::GradientReducer& sums);
  void Account(const RunningStep& step, const collectives::StepOutcome& outcome);
  absl::Status CountSkips(bool skipped);
  absl::Status CompareWeights() const;
  absl::Status Log();
  absl::Status AfterStep();
  absl::Status EvaluateNow();
  std::string LastGoodCheckpoint() const;
  absl::Status CheckFinite() const;
  absl::StatusOr<const TensorSet*> GatherForSave();
  absl::Status Save();
  absl::StatusOr<std::string> Write(const TensorSet& velocity) const;
  absl::Status Finish();
  // What communication cost, where there was any.
  void PrintReduction(double exposed_share) const;

  const TrainOptions& options_;
  Communicator& communicator_;
  Guard& guard_;
  Session& session_;
  TrainOutcome outcome_;
  std::optional<uint64_t> saved_step_;
  uint64_t begun_;     // steps, with those that are under way
  int64_t place_ = 0;  // the newest step that this rank has said to be in
  std::deque<RunningStep> under_way_;
  double peers_seconds_ = 0;          // for the other ranks to take the step's batches
  double step_loss_ = 0;              // this rank's share of the last step's loss
  double window_loss_ = 0;            // the same, summed since the last line
  std::optional<uint64_t> bad_step_;  // the first whose loss is not finite on this rank
  uint64_t skipped_in_a_row_ = 0;
  StepTimes window_;     // since the last line
  GradientNorms norms_;  // since the last line
  StepTimes total_;      // without the first step
  collectives::Stragglers window_stragglers_;
  collectives::Stragglers total_stragglers_;
  std::vector<double> flags_;  // of NextBatch
  double first_step_seconds_ = 0;
  uint64_t steps_run_ = 0;
  int64_t samples_run_ = 0;
};

absl::StatusOr<TrainOutcome> Loop::Run() {
  for (const std::string& line : DescribeSession(session_, options_, communicator_)) Print(line);
  const bool finished_before = session_.state.step >= session_.steps.total_steps;
  while (begun_ < session_.steps.total_steps && !outcome_.stopped) {
    MILLRACE_RETURN_IF_ERROR(Step());
  }
  if (finished_before && session_.eval_plan) MILLRACE_RETURN_IF_ERROR(EvaluateNow());
  MILLRACE_RETURN_IF_ERROR(Save());
  MILLRACE_RETURN_IF_ERROR(Finish());
  return outcome_;
}

void Loop::Print(const std::string& line) const {
  if (communicator_.rank() == 0 && options_.print) options_.print(line);
}

// Also checks what a step would refuse, so that bad data is announced to the other ranks.
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
  running.wait_seconds += SecondsSince(start);
  const absl::Status mine = Check(batch);
  const bool stop = options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  guard_.progress().Enter(step, -1, Phase::kWaiting);
  MILLRACE_ASSIGN_OR_RETURN(const Told told, TellPeers(!mine.ok(), stop, is_first));
  guard_.progress().Enter(step, -1, Phase::kBackward);
  if (told.failed) return AgreeOnStatus(communicator_, mine);
  if (told.stop) return std::nullopt;
  return batch;
}

// The exchange that each batch has anyway also takes round, with a step's first, how long each rank
// waited in the step before: for these exchanges to begin, and for its sums.
absl::StatusOr<Loop::Told> Loop::TellPeers(bool failed, bool stop, bool begins_step) {
  const auto ranks = static_cast<size_t>(communicator_.size());
  flags_.assign(2 + ranks, 0);
  flags_[0] = failed ? 1 : 0;
  flags_[1] = stop ? 1 : 0;
  if (begins_step) {
    flags_[2 + communicator_.rank()] =
        peers_seconds_ + session_.updater->counters().last_finish_seconds;
    peers_seconds_ = 0;
  }
  const Clock::time_point start = Clock::now();
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, flags_));
  peers_seconds_ += SecondsSince(start);
  const std::span<const double> waits = std::span(flags_).subspan(2);
  if (begins_step && steps_run_ > 0) window_stragglers_.Add(waits);
  if (begins_step && steps_run_ > 1) total_stragglers_.Add(waits);
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
  step.seconds = SecondsSince(start);
  under_way_.push_back(std::move(step));
  ++begun_;
  for (collectives::GradientReducer* sums : session_.updater->ready()) {
    MILLRACE_RETURN_IF_ERROR(Update(*sums));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Loop::RunBatches(RunningStep& step) {
  const uint64_t batches = session_.steps.BatchesOf(begun_);
  for (uint64_t i = 0; i < session_.steps.accumulate; ++i) {
    if (i >= batches) {
      MILLRACE_RETURN_IF_ERROR(session_.updater->FinishEmptyBatch());
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<pipeline::Batch> batch, NextBatch(step, i == 0));
    if (!batch.has_value()) return false;
    MILLRACE_RETURN_IF_ERROR(Compute(*batch, step));
  }
  return true;
}

// Gradients are of the sum over this rank's rows; the reducer divides by the rows of all batches of
// the step, of which rank 0 tells.
absl::Status Loop::Compute(const pipeline::Batch& batch, RunningStep& step) {
  Session& session = session_;
  const int64_t rows = batch.num_global_valid_rows();
  session.updater->SetRows(communicator_.rank() == 0 ? rows : 0);
  StepInput input = InputOf(session.model, *session.train, batch);
  input.global_valid_rows = 1;
  const auto ready = [&session](size_t i) { return session.updater->MarkReady(i); };
  MILLRACE_ASSIGN_OR_RETURN(const StepResult result, session.backend->TrainStep(input, ready));
  MILLRACE_RETURN_IF_ERROR(session.updater->Finish());
  step.rows += rows;
  step.loss_sum += result.loss_sum;
  step.resume_token = batch.resume_token();
  return absl::OkStatus();
}

absl::Status Loop::Update(collectives::GradientReducer& sums) {
  const Clock::time_point start = Clock::now();
  TrainState& state = session_.state;
  const auto number = static_cast<int64_t>(state.step);
  guard_.progress().Enter(number, -1, Phase::kUpdating);
  MILLRACE_RETURN_IF_ERROR(session_.updater->Apply(
      sums, number, session_.schedule->RateAt(state.step), session_.weights));
  RunningStep step = std::move(under_way_.front());
  under_way_.pop_front();
  state.resume_token = std::move(step.resume_token);
  ++state.step;
  if (state.step % session_.steps.steps_per_epoch == 0) ++state.epoch;
  step.seconds += SecondsSince(start);
  Account(step, sums.outcome());
  MILLRACE_RETURN_IF_ERROR(CountSkips(sums.outcome().skip));
  return AfterStep();
}

void Loop::Account(const RunningStep& step, const collectives::StepOutcome& outcome) {
  samples_run_ += step.rows;
  window_.Add(step.rows, step.seconds, step.wait_seconds);
  if (steps_run_++ == 0) {
    first_step_seconds_ = step.seconds;
  } else {
    total_.Add(step.rows, step.seconds, step.wait_seconds);
  }
  norms_.Add(outcome.skip, outcome.norm, outcome.clip_factor);
  if (outcome.skip) return;
  step_loss_ = step.loss_sum / static_cast<double>(std::max<int64_t>(1, step.rows));
  window_loss_ += step_loss_;
  if (!bad_step_ && !std::isfinite(step_loss_)) bad_step_ = session_.state.step;
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
                   " before it; max_skipped_steps is ", most, LastGoodCheckpoint())));
}

absl::Status Loop::CompareWeights() const {
  const auto every = static_cast<int64_t>(session_.job.job.reduction().digest_every());
  if (every == 0) return absl::OkStatus();
  std::vector<collectives::NamedTensor> weights;
  for (size_t i = 0; i < session_.weights.size(); ++i) {
    const Parameter& parameter = session_.model.parameters[i];
    weights.push_back({parameter.name, {session_.weights[i].data(), DType::kF32, parameter.shape}});
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
  return by_step || by_epoch ? Save() : absl::OkStatus();
}

absl::Status Loop::Log() {
  const uint64_t counted = window_.steps - norms_.skipped;  // none: NaN
  std::array<double, 1> loss = {window_loss_ / static_cast<double>(counted)};
  std::array<double, 1> wait = {window_.wait_seconds};  // the rank that waited most
  {
    const Waiting waiting = Wait();
    MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator_, std::span<double>(loss)));
    if (!std::isfinite(loss[0]))
      MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, CheckFinite()));
    MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, wait));
  }
  window_.wait_seconds = wait[0];
  StepLine line;
  line.step = session_.state.step;
  line.total_steps = session_.steps.total_steps;
  line.epoch = static_cast<double>(line.step) / static_cast<double>(session_.steps.steps_per_epoch);
  line.loss = loss[0];
  line.learning_rate = session_.schedule->RateAt(line.step - 1);
  line.times = window_;
  line.norms = norms_;
  line.shows_norm = session_.job.job.reduction().clip_norm() > 0;
  const auto straggler = window_stragglers_.Slowest();
  if (straggler && IsNotable(straggler->median_seconds, window_)) {
    line.straggler = straggler->ToString();
  }
  Print(FormatStep(line));
  window_ = {};
  norms_ = {};
  window_stragglers_.Clear();
  window_loss_ = 0;
  return absl::OkStatus();
}

absl::Status Loop::EvaluateNow() {
  MILLRACE_ASSIGN_OR_RETURN(const Evaluation evaluation,
                            Evaluate(session_, communicator_, guard_.progress(), place_));
  outcome_.test_accuracy = evaluation.accuracy();
  const double total = static_cast<double>(std::max<int64_t>(1, evaluation.total));
  Print(FormatEvaluation(session_.state.epoch, evaluation.correct, evaluation.total,
                         evaluation.loss_sum / total));
  return absl::OkStatus();
}

std::string Loop::LastGoodCheckpoint() const {
  if (outcome_.checkpoint.empty()) return "";
  return absl::StrCat("; the last good checkpoint is ", outcome_.checkpoint);
}

// A training that diverged must not replace the checkpoints of when it had not.
absl::Status Loop::CheckFinite() const {
  const auto diverged = [this](uint64_t step, const std::string& what) {
    return absl::OutOfRangeError(absl::StrFormat("step %d: %s is not finite (learning rate %g)%s",
                                                 step, what, session_.schedule->RateAt(step - 1),
                                                 LastGoodCheckpoint()));
  };
  if (bad_step_) return diverged(*bad_step_, "the loss");
  for (size_t i = 0; i < session_.weights.size(); ++i) {
    const std::vector<float>& weights = session_.weights[i];
    if (!std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); })) {
      return diverged(session_.state.step,
                      absl::StrCat("a value of '", session_.model.parameters[i].name, "'"));
    }
  }
  return absl::OkStatus();
}

// What a save needs from the other ranks.
absl::StatusOr<const TensorSet*> Loop::GatherForSave() {
  const absl::Status finite = CheckFinite();
  const Waiting waiting = Wait();
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, finite));
  return session_.updater->GatherVelocity();
}

// Rank 0 writes; the others wait to hear how it went.
absl::Status Loop::Save() {
  const JobFile& job = session_.job;
  if (job.checkpoint_folder.empty() || saved_step_ == session_.state.step) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const TensorSet* const velocity, GatherForSave());
  absl::StatusOr<std::string> path = std::string();
  if (communicator_.rank() == 0) path = Write(*velocity);
  if (path.ok() && communicator_.rank() == 0) {  // whatever becomes of the others
    outcome_.checkpoint = *path;
    saved_step_ = session_.state.step;
  }
  const Waiting waiting = Wait();
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, path.status()));
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator_, *path));
  outcome_.checkpoint = *path;
  saved_step_ = session_.state.step;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Loop::Write(const TensorSet& velocity) const {
  const JobFile& job = session_.job;
  const CheckpointFolder folder(job.checkpoint_folder,
                                static_cast<int>(job.job.checkpoint().keep()));
  return folder.Save(session_.model, session_.state, session_.weights, velocity);
}

// The weights change only between two steps, so they are those of the last whole one.
std::string Loop::SaveAfterLoss(const collectives::PeerLost& lost) {
  if (lost.rank == communicator_.rank()) return "the others have given this rank up";
  if (session_.job.checkpoint_folder.empty()) return "the job names no checkpoint folder";
  if (saved_step_ == session_.state.step) {
    return absl::StrCat("step ", session_.state.step, " is saved: ", outcome_.checkpoint);
  }
  if (!session_.updater->has_whole_velocity()) {
    return absl::StrCat("nothing saved: a part of the optimizer's state is lost with the rank",
                        LastGoodCheckpoint());
  }
  const int saver = guard_.Saver(lost);
  if (communicator_.rank() != saver) return absl::StrCat("rank ", saver, " saves");
  const absl::Status finite = CheckFinite();
  const auto velocity = session_.updater->GatherVelocity();  // whole, so nobody is waited for
  const absl::StatusOr<std::string> path = finite.ok() ? Write(**velocity) : finite;
  if (absl::IsAlreadyExists(path.status())) {  // the loss came in the middle of saving it
    return absl::StrCat("step ", session_.state.step, " is saved");
  }
  if (!path.ok()) return absl::StrCat("nothing saved: ", path.status().ToString());
  return absl::StrCat("saved step ", session_.state.step, ": ", *path);
}

absl::Status Loop::Finish() {
  std::array<double, 1> loss = {step_loss_};
  const Waiting waiting = Wait();
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator_, std::span<double>(loss)));
  const collectives::ReducerCounters counters = session_.updater->counters();
  const double seconds = first_step_seconds_ + total_.step_seconds;
  std::array<double, 2> share = {
      // the rank that waited most decides
      total_.wait_share(), seconds > 0 ? counters.total().exposed_seconds / seconds : 0};
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, share));
  outcome_.reduction = counters;
  outcome_.straggler = total_stragglers_.Slowest();
  outcome_.last_loss = loss[0];
  outcome_.wait_share = share[0];
  outcome_.steps = session_.state.step;
  if (steps_run_ > 0) {
    Print(absl::StrFormat("input path: data wait %.1f%% of step time, %s (first step excluded)",
                          100 * share[0], InputVerdict(share[0])));
    const double rate =
        total_.step_seconds > 0 ? static_cast<double>(total_.samples) / total_.step_seconds : 0;
    Print(absl::StrFormat("total: %d steps, %d samples in %.1f s of training, %.0f img/s",
                          steps_run_, samples_run_, first_step_seconds_ + total_.step_seconds,
                          rate));
  }
  if (outcome_.skipped > 0) {
    Print(absl::StrCat("skipped: ", outcome_.skipped, " steps whose gradients were not finite"));
  }
  PrintReduction(share[1]);
  if (!outcome_.checkpoint.empty()) Print("checkpoint: " + outcome_.checkpoint);
  if (outcome_.stopped) Print(absl::StrCat("stopped after step ", session_.state.step));
  return absl::OkStatus();
}

void Loop::PrintReduction(double exposed_share) const {
  if (communicator_.size() == 1 || outcome_.reduction.steps == 0) return;
  for (const std::string& line : FormatReduction(outcome_.reduction, exposed_share)) Print(line);
  if (!outcome_.straggler || total_.steps == 0) return;
  Print(absl::StrFormat("%s of %.1f ms steps", outcome_.straggler->ToString(),
                        1e3 * total_.step_seconds / static_cast<double>(total_.steps)));
}

// What a lost peer leaves behind: its place, and what could be saved.
absl::Status AfterLoss(const TrainOptions& options, Loop& loop, Guard& guard,
                       const absl::Status& status) {
  const auto aborted = guard.AbortedBy(status);
  const auto lost = aborted ? aborted : collectives::PeerLostOf(status);
  if (!lost) return status;
  const std::string saved = loop.SaveAfterLoss(*lost);
  const std::string timeline = guard.WriteTimelineAfterLoss(*lost);
  // The rank that failed reports why, the others nothing but this.
  if (aborted && guard.is_saver() && options.warn) {
    options.warn(absl::StrCat("another rank has failed; ", saved));
  }
  absl::Status told(status.code(), absl::StrCat(status.message(), "; ", saved, timeline));
  status.ForEachPayload(
      [&told](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  return told;
}

absl::StatusOr<TrainOutcome> Run(const TrainOptions& options, Communicator& communicator) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Guard> guard, Guard::Make(options, communicator));
  const auto session = OpenSession(options, communicator, guard->progress());
  if (!session.ok()) return guard->Explain(session.status());
  Loop loop(options, communicator, *guard, **session);
  absl::StatusOr<TrainOutcome> outcome = loop.Run();
  const absl::Status status = outcome.ok() ? guard->EndWell() : outcome.status();
  if (!status.ok()) return AfterLoss(options, loop, *guard, guard->Explain(status));
  return outcome;
}

}  // namespace

absl::StatusOr<TrainOutcome> Train(const TrainOptions& options, Communicator& communicator) {
  TrainOutcome outcome;
  absl::Status status = WithoutExceptions([&] {
    MILLRACE_ASSIGN_OR_RETURN(outcome, Run(options, communicator));
    return absl::OkStatus();
  });
  if (status.ok()) return outcome;
  const bool agreed = IsAgreed(status);
  if (!agreed) status = Annotate(status, absl::StrCat("rank ", communicator.rank()));
  // CANCELLED: a peer aborted the group, after it reported why.
  const bool mine = agreed ? communicator.rank() == 0 : !absl::IsCancelled(status);
  if (mine && options.report) options.report(status);
  // Of a lost peer every watchdog knows: nobody waits, and MPI would end the job before the others
  // have said and saved what they can.
  if (!agreed && !collectives::PeerLostOf(status)) communicator.Abort(status);
  return status;
}

}  // namespace millrace::trainer
