// The training loop. Each step:
//   wait for the next batch of the pipeline
//   tell the other ranks (one tiny reduction) whether somebody failed or was asked to stop, so that
//     all of them leave the loop at the same step
//   forward, loss, backward: every gradient goes into the reducer as soon as it is there
//   the optimizer, with the same sums and so the same bits on every rank
// What a rank cannot announce that way (its compute library or a collective call fails in the
// middle of a step) ends the group by Abort, so that no peer waits for ever.

#include "trainer/train.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "trainer/agree.h"
#include "trainer/report.h"
#include "trainer/session_internal.h"

namespace millrace::trainer {

using collectives::Communicator;

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Loop {
 public:
  Loop(const TrainOptions& options, Communicator& communicator, Session& session)
      : options_(options),
        communicator_(communicator),
        session_(session),
        saved_step_(session.resumed_from.empty() ? std::nullopt
                                                 : std::optional(session.state.step)) {
    outcome_.checkpoint = session.resumed_from;
  }

  absl::StatusOr<TrainOutcome> Run();

 private:
  void Print(const std::string& line) const;
  absl::StatusOr<std::optional<pipeline::Batch>> NextBatch();
  absl::Status Check(const absl::StatusOr<std::optional<pipeline::Batch>>& batch) const;
  absl::Status Step();
  absl::Status Compute(const pipeline::Batch& batch);
  absl::Status Log();
  absl::Status AfterStep();
  absl::Status EvaluateNow();
  absl::Status CheckFinite() const;
  absl::Status Save();
  absl::Status Finish();

  const TrainOptions& options_;
  Communicator& communicator_;
  Session& session_;
  TrainOutcome outcome_;
  std::optional<uint64_t> saved_step_;
  double wait_seconds_ = 0;           // this rank's, for the batch of the present step
  double step_loss_ = 0;              // this rank's share of the last step's loss
  double window_loss_ = 0;            // the same, summed since the last line
  std::optional<uint64_t> bad_step_;  // the first whose loss is not finite on this rank
  StepTimes window_;                  // since the last line
  StepTimes total_;                   // without the first step
  double first_step_seconds_ = 0;
  uint64_t steps_run_ = 0;
  int64_t samples_run_ = 0;
};

absl::StatusOr<TrainOutcome> Loop::Run() {
  for (const std::string& line : DescribeSession(session_, options_, communicator_)) Print(line);
  const bool finished_before = session_.state.step >= session_.total_steps;
  while (session_.state.step < session_.total_steps && !outcome_.stopped) {
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
    status = absl::OutOfRangeError(
        absl::StrCat("the pipeline ended after ", session_.state.step, " steps"));
  }
  if (status.ok())
    status = CheckStepInput(session_.model, InputOf(session_.model, *session_.train, **batch));
  return Annotate(status, session_.job.train_path);
}

// The next batch, the same on all ranks; nullopt when some rank was asked to stop.
absl::StatusOr<std::optional<pipeline::Batch>> Loop::NextBatch() {
  const Clock::time_point start = Clock::now();
  absl::StatusOr<std::optional<pipeline::Batch>> batch = session_.train->Next();
  wait_seconds_ = SecondsSince(start);
  const absl::Status mine = Check(batch);
  const bool stop = options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  std::array<double, 2> flags = {mine.ok() ? 0.0 : 1.0, stop ? 1.0 : 0.0};
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, flags));
  if (flags[0] != 0) return AgreeOnStatus(communicator_, mine);
  if (flags[1] != 0) return std::nullopt;
  return batch;
}

absl::Status Loop::Step() {
  const Clock::time_point start = Clock::now();
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<pipeline::Batch> batch, NextBatch());
  if (!batch.has_value()) {
    outcome_.stopped = true;
    return absl::OkStatus();
  }
  MILLRACE_RETURN_IF_ERROR(Compute(*batch));
  session_.state.resume_token = batch->resume_token();
  ++session_.state.step;
  if (session_.state.step % session_.steps_per_epoch == 0) ++session_.state.epoch;

  const double seconds = SecondsSince(start);
  const int64_t samples = batch->num_global_valid_rows();
  samples_run_ += samples;
  window_.Add(samples, seconds, wait_seconds_);
  if (steps_run_++ == 0) {
    first_step_seconds_ = seconds;
  } else {
    total_.Add(samples, seconds, wait_seconds_);
  }
  return AfterStep();
}

absl::Status Loop::Compute(const pipeline::Batch& batch) {
  Session& session = session_;
  const auto ready = [&session](size_t i) {
    return session.reducer->MarkReady(session.ReducerIndex(i));
  };
  MILLRACE_ASSIGN_OR_RETURN(
      const StepResult result,
      session.backend->TrainStep(InputOf(session.model, *session.train, batch), ready));
  MILLRACE_RETURN_IF_ERROR(session.reducer->Finish());
  const double rate = session.schedule->RateAt(session.state.step);
  for (size_t i = 0; i < session.weights.size(); ++i) {
    session.sgd->Apply(i, rate, session.reducer->gradient(session.ReducerIndex(i)),
                       session.weights[i]);
  }
  const auto rows = static_cast<double>(std::max<int64_t>(1, batch.num_global_valid_rows()));
  step_loss_ = result.loss_sum / rows;
  window_loss_ += step_loss_;
  if (!bad_step_ && !std::isfinite(step_loss_)) bad_step_ = session.state.step + 1;
  return absl::OkStatus();
}

absl::Status Loop::AfterStep() {
  const TrainState& state = session_.state;
  const Job& job = session_.job.job;
  const bool last = state.step == session_.total_steps;
  if (communicator_.rank() == 0 && options_.progress) {
    options_.progress(state.step, session_.total_steps);
  }
  const bool epoch_end = state.step % session_.steps_per_epoch == 0;
  if (last || state.step % job.log_every_steps() == 0) MILLRACE_RETURN_IF_ERROR(Log());
  if (session_.eval_plan && (epoch_end || last)) MILLRACE_RETURN_IF_ERROR(EvaluateNow());
  const CheckpointPolicy& policy = job.checkpoint();
  const bool by_step = policy.every_steps() > 0 && state.step % policy.every_steps() == 0;
  const bool by_epoch =
      policy.every_epochs() > 0 && epoch_end && state.epoch % policy.every_epochs() == 0;
  return by_step || by_epoch ? Save() : absl::OkStatus();
}

absl::Status Loop::Log() {
  std::array<double, 1> loss = {window_loss_ / static_cast<double>(window_.steps)};
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator_, std::span<double>(loss)));
  if (!std::isfinite(loss[0]))
    MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, CheckFinite()));
  std::array<double, 1> wait = {window_.wait_seconds};  // the rank that waited most
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, wait));
  window_.wait_seconds = wait[0];
  StepLine line;
  line.step = session_.state.step;
  line.total_steps = session_.total_steps;
  line.epoch = static_cast<double>(line.step) / static_cast<double>(session_.steps_per_epoch);
  line.loss = loss[0];
  line.learning_rate = session_.schedule->RateAt(line.step - 1);
  line.times = window_;
  Print(FormatStep(line));
  window_ = {};
  window_loss_ = 0;
  return absl::OkStatus();
}

absl::Status Loop::EvaluateNow() {
  MILLRACE_ASSIGN_OR_RETURN(const Evaluation evaluation, Evaluate(session_, communicator_));
  outcome_.test_accuracy = evaluation.accuracy();
  const double total = static_cast<double>(std::max<int64_t>(1, evaluation.total));
  Print(FormatEvaluation(session_.state.epoch, evaluation.correct, evaluation.total,
                         evaluation.loss_sum / total));
  return absl::OkStatus();
}

// A training that diverged must not replace the checkpoints of when it had not.
absl::Status Loop::CheckFinite() const {
  const auto diverged = [this](uint64_t step, const std::string& what) {
    const std::string good =
        outcome_.checkpoint.empty()
            ? std::string()
            : absl::StrCat("; the last good checkpoint is ", outcome_.checkpoint);
    return absl::OutOfRangeError(absl::StrFormat("step %d: %s is not finite (learning rate %g)%s",
                                                 step, what, session_.schedule->RateAt(step - 1),
                                                 good));
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

// Rank 0 writes; the others wait to hear how it went.
absl::Status Loop::Save() {
  const JobFile& job = session_.job;
  if (job.checkpoint_folder.empty() || saved_step_ == session_.state.step) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, CheckFinite()));
  absl::StatusOr<std::string> path = std::string();
  if (communicator_.rank() == 0) {
    const CheckpointFolder folder(job.checkpoint_folder,
                                  static_cast<int>(job.job.checkpoint().keep()));
    path = folder.Save(session_.model, session_.state, session_.weights, session_.sgd->velocity());
  }
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, path.status()));
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator_, *path));
  outcome_.checkpoint = *path;
  saved_step_ = session_.state.step;
  return absl::OkStatus();
}

absl::Status Loop::Finish() {
  std::array<double, 1> loss = {step_loss_};
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(communicator_, std::span<double>(loss)));
  std::array<double, 1> share = {total_.wait_share()};  // the rank that waited most decides
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, share));
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
  if (!outcome_.checkpoint.empty()) Print("checkpoint: " + outcome_.checkpoint);
  if (outcome_.stopped) Print(absl::StrCat("stopped after step ", session_.state.step));
  return absl::OkStatus();
}

absl::StatusOr<TrainOutcome> Run(const TrainOptions& options, Communicator& communicator) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                            OpenSession(options, communicator));
  return Loop(options, communicator, *session).Run();
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
  if (!agreed) communicator.Abort(status);
  return status;
}

}  // namespace millrace::trainer
