#include "trainer/server/worker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "trainer/loop/backend_options.h"
#include "trainer/loop/batch_statistics.h"
#include "trainer/loop/evaluate.h"
#include "trainer/server/beginning.h"

namespace millrace::trainer {
namespace {

// Tensors of a server for each of its weights: the weights, the optimizer's state, the average.
uint64_t TensorsPerWeight(const OptimizerSpec& spec) {
  return 1 + MakeUpdateRule(spec)->slots().size() + (spec.has_ema() ? 1 : 0);
}

}  // namespace

Worker::Worker(const TrainParts& parts, const TrainOptions& options, const ServerCluster& cluster,
               const std::vector<std::vector<size_t>>& placed, Session& session)
    : parts_(parts),
      options_(options),
      cluster_(cluster),
      session_(session),
      links_(options, cluster, session.model, placed,
             JobNumber(session.job, session.model, cluster.workers, cluster.servers()),
             is_chief() ? TensorsPerWeight(session.job.job.optimizer()) : 1) {}

absl::StatusOr<TrainOutcome> Worker::Run() {
  const absl::Status opened = Open();
  absl::StatusOr<TrainOutcome> outcome = TrainOutcome();
  if (opened.ok()) outcome = Train();
  const absl::Status status = opened.ok() ? outcome.status() : opened;
  if (status.ok()) return outcome;
  // The others have ended without waiting for this worker.
  if (links_.has_ended() && !is_chief()) return EndOfOther(*links_.AwaitEnd());
  links_.SayFailed(status);
  return status;
}

absl::Status Worker::Open() { return is_chief() ? OpenAsChief() : OpenAsOther(); }

absl::Status Worker::OpenAsChief() {
  // First, so that the others hear of what goes wrong here.
  MILLRACE_RETURN_IF_ERROR(links_.Connect());
  TrainOptions options = options_;
  options.index_progress = [this](int64_t done, int64_t total) {
    (void)links_.SayAlive();
    if (options_.index_progress) options_.index_progress(done, total);
  };
  MILLRACE_ASSIGN_OR_RETURN(Beginning beginning,
                            MakeBeginning(options, cluster_.workers, session_));
  batches_ = beginning.start.positions(0).batches();
  all_batches_ = beginning.start.batches();
  session_.main().weights = beginning.tensors.weights;
  if (session_.eval_plan) {
    const auto alone = collectives::MakeSingle();
    MILLRACE_RETURN_IF_ERROR(Annotate(
        OpenEvaluation(EvaluationPartsOf(session_), *alone, options.index_progress).status(),
        session_.job.eval_path));
  }
  MILLRACE_RETURN_IF_ERROR(MakeBackend());
  MILLRACE_RETURN_IF_ERROR(links_.Begin(beginning.start, beginning.tensors, session_.resumed_from));
  chief_ = std::make_unique<Chief>(parts_, options_, cluster_, session_, links_,
                                   std::move(beginning.tensors));
  chief_->PrintStart();
  return absl::OkStatus();
}

absl::Status Worker::OpenAsOther() {
  MILLRACE_RETURN_IF_ERROR(links_.Connect());
  const wire::Start& start = links_.start();
  if (start.positions_size() != 1) return absl::DataLossError("a welcome without a position");
  batches_ = start.positions(0).batches();
  all_batches_ = start.batches();
  session_.state.step = start.version();
  session_.state.resume_token = start.positions(0).token();
  session_.state.data_fingerprint = start.data_fingerprint();
  MILLRACE_RETURN_IF_ERROR(OpenTrainPipeline(options_, cluster_.index, cluster_.workers, session_));
  if (session_.state.data_fingerprint != start.data_fingerprint() ||
      session_.steps.total_steps != all_batches_) {
    return absl::InvalidArgumentError("the training data are others than the chief's");
  }
  CountUpdates(cluster_.workers, session_);
  session_.main().weights = MakeZeros(session_.model);
  session_.main().buffers = MakeInitialBuffers(session_.model);
  return MakeBackend();
}

absl::Status Worker::MakeBackend() {
  TrainedModel& main = session_.main();
  gradient_ = MakeZeros(main.model);
  const std::vector<std::span<float>> spans(gradient_.begin(), gradient_.end());
  auto backend = parts_.make_backend(main.model, main.weights, main.buffers, spans,
                                     BackendOptionsOf(session_.job.job, session_.cores));
  if (!backend.ok()) return Annotate(backend.status(), options_.job_path);
  main.backend = *std::move(backend);
  return absl::OkStatus();
}

bool Worker::IsStopWanted() const {
  return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
}

absl::StatusOr<TrainOutcome> Worker::Train() {
  MILLRACE_ASSIGN_OR_RETURN(wire::Progress progress, links_.Ready(session_.main().weights));
  const Observed observed(options_, cluster_.index, cluster_.workers, session_);
  Show(observed, progress);
  while (!progress.is_over() && !progress.is_stopping()) {
    if (!is_chief() && IsStopWanted()) {
      MILLRACE_RETURN_IF_ERROR(links_.Leave());
      return EndOfOther(/*is_stopped=*/true);
    }
    if (!is_chief() && batches_ == all_batches_) break;
    MILLRACE_ASSIGN_OR_RETURN(progress, Next());
    Show(observed, progress);
    if (options_.on_weights) options_.on_weights(progress.version(), session_.main().weights);
  }
  return End(progress);
}

void Worker::Show(const Observed& observed, const wire::Progress& progress) const {
  RankFigures figures;
  figures.step = progress.version();
  figures.total_steps = session_.steps.total_steps;
  figures.epoch =
      static_cast<double>(figures.step) / static_cast<double>(session_.steps.steps_per_epoch);
  if (progress.losses() > 0) figures.loss = progress.last_loss();
  figures.times = times_;
  figures.times.samples = static_cast<int64_t>(progress.samples());
  observed.SetFigures(figures);
}

absl::StatusOr<wire::Progress> Worker::Next() {
  if (is_chief() && IsStopWanted() && !has_asked_) {
    has_asked_ = true;
    MILLRACE_RETURN_IF_ERROR(links_.AskToStop());
    return links_.AwaitVersion(0, session_.main().weights);
  }
  wire::Progress progress;
  if (batches_ == all_batches_) {
    MILLRACE_ASSIGN_OR_RETURN(progress,
                              links_.AwaitVersion(chief_->NextDue(), session_.main().weights));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(progress, Step());
  }
  if (!is_chief() || progress.is_over() || progress.is_stopping()) return progress;
  MILLRACE_ASSIGN_OR_RETURN(const bool took_long, chief_->After(progress));
  if (!took_long) return progress;
  return links_.AwaitVersion(0, session_.main().weights);  // the others may have come on
}

// The first batch may take long: a shuffle buffer is filled. Later ones may not, so that a read
// that hangs is noticed.
absl::StatusOr<std::optional<pipeline::Batch>> Worker::ReadBatch() {
  while (!has_read_) {
    auto first = session_.train->NextFor(kAliveEvery);
    if (first) {
      has_read_ = true;
      return *std::move(first);
    }
    MILLRACE_RETURN_IF_ERROR(links_.SayAlive());
  }
  return session_.train->Next();
}

absl::StatusOr<pipeline::Batch> Worker::NextBatch() {
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<std::optional<pipeline::Batch>> batch = ReadBatch();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  if (chief_) chief_->NoteWait(waited.count());
  times_.wait_seconds += waited.count();
  absl::Status status = batch.status();
  if (status.ok() && !batch->has_value()) {
    status = absl::OutOfRangeError(absl::StrCat("the pipeline ended after ", batches_, " batches"));
  }
  if (status.ok()) {
    status = CheckStepInput(session_.model, InputOf(session_.model, *session_.train, **batch));
  }
  if (!status.ok()) return Annotate(status, session_.job.train_path);
  return **std::move(batch);
}

absl::StatusOr<wire::Progress> Worker::Step() {
  const auto begin = std::chrono::steady_clock::now();
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::Batch batch, NextBatch());
  MILLRACE_RETURN_IF_ERROR(links_.SayAlive());
  MILLRACE_ASSIGN_OR_RETURN(const wire::Report report, Compute(batch));
  MILLRACE_ASSIGN_OR_RETURN(const wire::Progress progress,
                            links_.Push(gradient_, report, session_.main().weights));
  if (!progress.is_stopping()) ++batches_;
  ++times_.steps;
  times_.step_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return progress;
}

absl::StatusOr<wire::Report> Worker::Compute(const pipeline::Batch& batch) {
  StepInput input = InputOf(session_.model, *session_.train, batch);
  input.global_valid_rows = 1;  // the servers divide by the rows
  input.seed = session_.job.job.seed();
  input.step = batches_;
  const auto ready = [this](size_t) { return links_.SayAlive(); };
  MILLRACE_ASSIGN_OR_RETURN(Network* const network, session_.main().backend->Compile(
                                                        batch.num_rows(), NetworkUse::kTraining));
  MILLRACE_RETURN_IF_ERROR(network->Forward(input));
  MILLRACE_RETURN_IF_ERROR(network->Backward(ready));
  MILLRACE_ASSIGN_OR_RETURN(const StepResult result, network->Result());
  BatchStatistics statistics;
  statistics.Add(network->statistics(), result.valid);
  wire::Report report;
  report.set_rows(result.valid);
  report.set_loss_sum(result.loss_sum);
  if (!std::isfinite(result.loss_sum)) report.set_bad_layer(network->FirstNonFinite());
  report.mutable_position()->set_batches(batches_ + 1);
  report.mutable_position()->set_token(batch.resume_token());
  const std::vector<double> sums = statistics.sums();
  report.mutable_statistics()->Assign(sums.begin(), sums.end());
  return report;
}

TrainOutcome Worker::EndOfOther(bool is_stopped) const {
  TrainOutcome outcome;
  outcome.stopped = is_stopped;
  outcome.checkpoint = links_.checkpoint();
  return outcome;
}

absl::StatusOr<TrainOutcome> Worker::End(const wire::Progress& progress) {
  if (is_chief()) {
    MILLRACE_ASSIGN_OR_RETURN(TrainOutcome outcome, chief_->Finish(progress));
    MILLRACE_RETURN_IF_ERROR(links_.AwaitEnd().status());
    return outcome;
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool is_stopped, links_.AwaitEnd());
  return EndOfOther(is_stopped);
}

}  // namespace millrace::trainer
