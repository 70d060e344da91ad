#include "trainer/server/chief.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/evaluate.h"
#include "trainer/ranks/agree.h"
#include "trainer/server/describe.h"

namespace millrace::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// True if a multiple of `every` is in (before, now]; false for 0.
bool Crosses(uint64_t before, uint64_t now, uint64_t every) {
  return every > 0 && before / every != now / every;
}

// The first multiple of `every` after `version`.
uint64_t NextMultiple(uint64_t version, uint64_t every) {
  return every > 0 ? (version / every + 1) * every : UINT64_MAX;
}

// Tells the servers that the chief is alive while it evaluates.
class Heartbeat final : public collectives::Progress {
 public:
  explicit Heartbeat(ServerLinks& links) : links_(links) {}
  void Enter(int64_t, int, collectives::Phase) override {
    if (health_.ok()) health_ = links_.SayAlive();
  }
  absl::Status Health() const override { return health_; }

 private:
  ServerLinks& links_;
  absl::Status health_;
};

}  // namespace

Chief::Chief(const TrainParts& parts, const TrainOptions& options, const ServerCluster& cluster,
             Session& session, ServerLinks& links, AllTensors tensors)
    : parts_(parts),
      options_(options),
      cluster_(cluster),
      session_(session),
      links_(links),
      tensors_(std::move(tensors)),
      seen_(session.state.step),
      line_begin_(Clock::now()),
      begin_(line_begin_),
      first_(session.state.step) {
  if (!session.resumed_from.empty()) saved_ = session.state.step;
}

void Chief::Print(const std::string& line) const {
  if (options_.print) options_.print(line);
}

void Chief::PrintStart() const {
  for (const std::string& line : DescribeServers(session_, options_, cluster_)) Print(line);
}

Chief::Due Chief::DueBetween(uint64_t before, uint64_t now, bool is_last) const {
  const CheckpointPolicy& policy = session_.job.job.checkpoint();
  const uint64_t epoch = session_.steps.steps_per_epoch;
  Due due;
  due.line = is_last || Crosses(before, now, session_.job.job.log_every_steps());
  due.evaluation = session_.eval_plan.has_value() && (is_last || Crosses(before, now, epoch));
  due.save = !session_.job.checkpoint_folder.empty() &&
             (is_last || Crosses(before, now, policy.every_steps()) ||
              Crosses(before, now, epoch * policy.every_epochs()));
  return due;
}

uint64_t Chief::NextDue() const {
  const CheckpointPolicy& policy = session_.job.job.checkpoint();
  return std::min({NextMultiple(seen_, session_.job.job.log_every_steps()),
                   NextMultiple(seen_, session_.steps.steps_per_epoch),
                   NextMultiple(seen_, policy.every_steps())});
}

absl::StatusOr<bool> Chief::After(const wire::Progress& progress) {
  progress_ = progress;
  if (options_.progress) options_.progress(progress.version(), session_.steps.total_steps);
  const Due due = DueBetween(seen_, progress.version(), /*is_last=*/false);
  seen_ = progress.version();
  if (due.line) {
    // As ranks do: behind a ReLU, which makes a zero of NaN, the loss stays finite.
    MILLRACE_RETURN_IF_ERROR(CheckFinite(session_.main().weights, progress.version()));
    PrintLine(progress);
  }
  const bool is_written =
      writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (is_written) MILLRACE_RETURN_IF_ERROR(AwaitSaved(/*is_last=*/false));
  if (!due.evaluation && !due.save) return false;
  MILLRACE_RETURN_IF_ERROR(TakeSnapshot());
  if (due.evaluation) MILLRACE_RETURN_IF_ERROR(EvaluateNow());
  if (due.save) MILLRACE_RETURN_IF_ERROR(Save());
  line_begin_ = Clock::now();
  return true;
}

absl::Status Chief::TakeSnapshot() {
  MILLRACE_ASSIGN_OR_RETURN(const wire::Header first, links_.TakeSnapshot(tensors_));
  for (size_t i = 0; i < session_.main().weights.size(); ++i) {
    std::ranges::copy(tensors_.weights[i], session_.main().weights[i].begin());
  }
  MILLRACE_RETURN_IF_ERROR(TakeBuffers(first.buffers(), session_.main().buffers));
  progress_ = first.progress();
  TrainState& state = session_.state;
  state.step = state.updates = first.progress().version();
  state.epoch = state.step / session_.steps.steps_per_epoch;
  state.test_accuracy.reset();
  state.workers.clear();
  for (const wire::Position& position : first.positions()) {
    state.workers.push_back({position.batches(), position.token()});
  }
  if (state.workers.empty()) return absl::DataLossError("a snapshot without positions");
  const auto least = std::ranges::min_element(state.workers, {}, &WorkerPosition::batches);
  state.resume_token = least->resume_token;
  // Workers that have gone in step leave a checkpoint as that of ranks.
  const auto in_step = [&state](const WorkerPosition& worker) {
    return worker.batches == state.step;
  };
  if (std::ranges::all_of(state.workers, in_step)) state.workers.clear();
  return absl::OkStatus();
}

absl::Status Chief::EvaluateNow() {
  std::optional<WeightAverage> average;
  if (session_.job.job.optimizer().has_ema()) {
    average.emplace(0, false, tensors_.slots.back().tensors);
    average->SwapWith(session_.main().weights);
  }
  Heartbeat heartbeat(links_);
  const auto alone = collectives::MakeSingle();
  EvaluationParts parts = EvaluationPartsOf(session_);
  parts.done = options_.evaluation_progress;
  MILLRACE_ASSIGN_OR_RETURN(
      const Evaluation evaluation,
      Evaluate(parts, *alone, heartbeat, static_cast<int64_t>(session_.state.step)));
  if (average) average->SwapWith(session_.main().weights);
  session_.state.test_accuracy = evaluation.accuracy();
  evaluated_ = session_.state.step;
  accuracy_ = evaluation.accuracy();
  EvaluationLine line = LineOf(evaluation, session_.main().model.losses[0]);
  line.epoch = session_.state.epoch;
  session_.telemetry->AddEvaluation(session_.state.step, line);
  Print(FormatEvaluation(line));
  return absl::OkStatus();
}

void Chief::PrintLine(const wire::Progress& progress) {
  const uint64_t updates = progress.losses() - printed_.losses();
  if (updates == 0) return;
  StepLine line;
  line.step = progress.version();
  line.total_steps = session_.steps.total_steps;
  line.epoch = static_cast<double>(line.step) / static_cast<double>(session_.steps.steps_per_epoch);
  line.loss = (progress.loss_sum() - printed_.loss_sum()) / static_cast<double>(updates);
  line.learning_rate = session_.main().schedule->RateAt(line.step - 1);
  times_.steps = updates;
  times_.samples = progress.samples() - printed_.samples();
  times_.step_seconds = SecondsSince(line_begin_);
  line.times = times_;
  wait_seconds_ += times_.wait_seconds;
  session_.telemetry->AddLine(line);
  Print(FormatStep(line));
  printed_ = progress;
  times_ = {};
  line_begin_ = Clock::now();
}

absl::Status Chief::CheckFinite(const TensorSet& weights, uint64_t version) const {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (std::ranges::all_of(weights[i], [](float w) { return std::isfinite(w); })) continue;
    return absl::OutOfRangeError(absl::StrFormat(
        "update %d: a value of '%s' is not finite (learning rate %g)%s", version,
        session_.model.parameters[i].name, session_.main().schedule->RateAt(version - 1),
        links_.checkpoint().empty()
            ? ""
            : absl::StrCat("; the last good checkpoint is ", links_.checkpoint())));
  }
  return absl::OkStatus();
}

absl::Status Chief::Save() {
  if (session_.job.checkpoint_folder.empty() || saved_ == session_.state.step) {
    return absl::OkStatus();
  }
  MILLRACE_RETURN_IF_ERROR(CheckFinite(tensors_.weights, session_.state.step));
  MILLRACE_RETURN_IF_ERROR(AwaitSaved(/*is_last=*/false));
  saved_ = session_.state.step;
  const CheckpointPolicy& policy = session_.job.job.checkpoint();
  const KeepRule keep = {static_cast<int>(policy.keep()), static_cast<int>(policy.keep_best())};
  writing_ = std::async(
      std::launch::async,
      [&model = session_.main().model, state = session_.state, tensors = tensors_,
       buffers = session_.main().buffers,
       folder = CheckpointFolder(session_.job.checkpoint_folder, keep, session_.warn,
                                 parts_.write_checkpoint)]() -> absl::StatusOr<std::string> {
        const ModelTensors saved = {model, tensors.weights, tensors.slots, buffers};
        return folder.Save(state, {&saved, 1});
      });
  return absl::OkStatus();
}

absl::Status Chief::AwaitSaved(bool is_last) {
  std::string path = links_.checkpoint();
  const bool was_written = writing_.valid();
  while (writing_.valid() &&
         writing_.wait_for(std::chrono::milliseconds(500)) != std::future_status::ready) {
    MILLRACE_RETURN_IF_ERROR(links_.SayAlive());
  }
  if (was_written) {
    absl::StatusOr<std::string> written = std::string();
    MILLRACE_RETURN_IF_ERROR(WithoutExceptions([&] {
      written = writing_.get();
      return written.status();
    }));
    path = *std::move(written);
  }
  return was_written || is_last ? links_.SaySaved(path, is_last) : absl::OkStatus();
}

absl::StatusOr<TrainOutcome> Chief::Finish(const wire::Progress& progress) {
  progress_ = progress;
  if (options_.progress) options_.progress(progress.version(), session_.steps.total_steps);
  PrintLine(progress);
  MILLRACE_RETURN_IF_ERROR(TakeSnapshot());
  MILLRACE_RETURN_IF_ERROR(CheckFinite(tensors_.weights, session_.state.step));
  const bool evaluates = session_.eval_plan && progress.is_over() && !progress.is_stopping();
  if (evaluates && evaluated_ != session_.state.step) MILLRACE_RETURN_IF_ERROR(EvaluateNow());
  MILLRACE_RETURN_IF_ERROR(Save());
  MILLRACE_RETURN_IF_ERROR(AwaitSaved(/*is_last=*/true));
  TrainOutcome outcome;
  outcome.stopped = progress.is_stopping() && !progress.is_over();
  outcome.steps = session_.state.step;
  outcome.test_accuracy = accuracy_;
  outcome.last_loss = progress_.last_loss();
  outcome.checkpoint = links_.checkpoint();
  const wire::Counts& counts = progress_.counts();
  outcome.servers = {{counts.staleness().begin(), counts.staleness().end()},
                     counts.dropped(),
                     counts.lost(),
                     counts.joined(),
                     0};
  for (const WorkerPosition& worker : session_.state.workers) {
    outcome.servers.unread += links_.start().batches() - worker.batches;
  }
  const double seconds = SecondsSince(begin_);
  outcome.wait_fraction = seconds > 0 ? wait_seconds_ / seconds : 0;
  PrintTotal(outcome);
  return outcome;
}

void Chief::PrintTotal(const TrainOutcome& outcome) const {
  const double seconds = SecondsSince(begin_);
  Print(absl::StrFormat("total: %d updates, %d samples in %.1f s, %.0f img/s",
                        outcome.steps - first_, progress_.samples(), seconds,
                        seconds > 0 ? static_cast<double>(progress_.samples()) / seconds : 0));
  for (const std::string& line : DescribeCounts(outcome.servers)) Print(line);
  if (!outcome.checkpoint.empty()) Print("checkpoint: " + outcome.checkpoint);
  if (outcome.stopped) Print(absl::StrCat("stopped after update ", outcome.steps));
}

}  // namespace millrace::trainer
