#include "trainer/loop/run_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trainer/loop/describe.h"

namespace millrace::trainer {
namespace {

// True if a wait for a rank is worth mentioning in a line: longer than the usual differences
// between threads that share cores, and a notable part of the step.
bool IsNotable(double median_seconds, const StepTimes& times) {
  return median_seconds >= 1e-3 &&
         median_seconds * static_cast<double>(times.steps) >= 0.05 * times.step_seconds;
}

}  // namespace

RunLog::RunLog(const TrainOptions& options, const collectives::Communicator& communicator,
               const Session& session)
    : options_(options),
      communicator_(communicator),
      session_(session),
      window_stragglers_(communicator.size()),
      total_stragglers_(communicator.size()) {}

void RunLog::Print(const std::string& line) const {
  if (communicator_.rank() == 0 && options_.print) options_.print(line);
}

void RunLog::PrintStart() const {
  for (const std::string& line : DescribeSession(session_, options_, communicator_)) Print(line);
}

void RunLog::AddWaits(std::span<const double> waits) {
  if (first_.steps > 0) window_stragglers_.Add(waits);
  if (total_.steps > 0) total_stragglers_.Add(waits);
}

void RunLog::AddStep(const Step& step, const collectives::StepOutcome& outcome) {
  window_.Add(step.rows, step.seconds, step.wait_seconds);
  (first_.steps == 0 ? first_ : total_).Add(step.rows, step.seconds, step.wait_seconds);
  norms_.Add(outcome.skip, outcome.norm, outcome.clip_factor);
  session_.telemetry->AddStep({.rows = step.rows,
                               .skipped = outcome.skip,
                               .seconds = step.seconds,
                               .wait_seconds = step.wait_seconds});
  if (outcome.skip) return;
  const auto rows = static_cast<double>(std::max<int64_t>(1, step.rows));
  last_loss_ = step.loss_sum / rows;
  last_generator_loss_ = step.generator_loss_sum / rows;
  window_loss_ += last_loss_;
  window_generator_loss_ += last_generator_loss_;
}

RunLog::Window RunLog::window() const {
  const auto counted = static_cast<double>(window_.steps - norms_.skipped);
  return {window_loss_ / counted, window_generator_loss_ / counted, window_.wait_seconds};
}

StepTimes RunLog::times() const {
  return {first_.steps + total_.steps, first_.samples + total_.samples,
          first_.step_seconds + total_.step_seconds, first_.wait_seconds + total_.wait_seconds};
}

RankFigures RunLog::figures() const {
  RankFigures figures;
  figures.step = session_.state.step;
  figures.total_steps = session_.steps.total_steps;
  figures.epoch =
      static_cast<double>(figures.step) / static_cast<double>(session_.steps.steps_per_epoch);
  figures.times = times();
  figures.loss = printed_loss_;
  if (communicator_.size() == 1 && figures.times.steps > 0) figures.loss = last_loss_;
  return figures;
}

void RunLog::PrintWindow(const Window& over_ranks) {
  printed_loss_ = over_ranks.mean_loss;
  StepLine line;
  line.step = session_.state.step;
  line.total_steps = session_.steps.total_steps;
  line.epoch = static_cast<double>(line.step) / static_cast<double>(session_.steps.steps_per_epoch);
  line.loss = over_ranks.mean_loss;
  if (session_.job.job.has_adversarial()) line.generator_loss = over_ranks.mean_generator_loss;
  line.learning_rate = session_.main().schedule->RateAt(line.step - 1);
  line.times = window_;
  line.times.wait_seconds = over_ranks.wait_seconds;
  line.norms = norms_;
  line.shows_norm = session_.job.job.reduction().clip_norm() > 0;
  const auto straggler = window_stragglers_.Slowest();
  if (straggler && IsNotable(straggler->median_seconds, window_)) {
    line.straggler = straggler->ToString();
  }
  if (communicator_.rank() == 0) session_.telemetry->AddLine(line);
  Print(FormatStep(line));
  window_ = {};
  norms_ = {};
  window_stragglers_.Clear();
  window_loss_ = 0;
  window_generator_loss_ = 0;
}

void RunLog::PrintEvaluation(const Evaluation& evaluation) const {
  EvaluationLine line = LineOf(evaluation, session_.main().model.losses[0]);
  line.epoch = session_.state.epoch;
  if (communicator_.rank() == 0) session_.telemetry->AddEvaluation(session_.state.step, line);
  Print(FormatEvaluation(line));
}

RunLog::Fractions RunLog::fractions(const collectives::ReducerCounters& counters) const {
  const double seconds = times().step_seconds;
  return {total_.wait_fraction(), seconds > 0 ? counters.total().exposed_seconds / seconds : 0};
}

void RunLog::PrintTotal(const TrainOutcome& outcome, double exposed_fraction,
                        const std::optional<pipeline::Diagnosis>& diagnosis,
                        const std::string& threads) const {
  if (first_.steps > 0) {
    Print(absl::StrFormat("input path: data wait %.1f%% of step time, %s (first step excluded)",
                          100 * outcome.wait_fraction,
                          pipeline::InputVerdict(outcome.wait_fraction)));
    if (diagnosis.has_value() && diagnosis->rate > 0) PrintVerdict(*diagnosis, threads);
    Print(FormatTotal(times(), total_));
  }
  if (outcome.skipped > 0) {
    Print(absl::StrCat("skipped: ", outcome.skipped, " steps whose gradients were not finite"));
  }
  PrintReduction(outcome, exposed_fraction);
  if (!outcome.checkpoint.empty()) Print("checkpoint: " + outcome.checkpoint);
  if (outcome.stopped) Print(absl::StrCat("stopped after step ", session_.state.step));
}

// The input path's line is of the rank that waited most, this one of rank 0.
void RunLog::PrintVerdict(const pipeline::Diagnosis& diagnosis, const std::string& threads) const {
  Print(absl::StrCat(communicator_.size() > 1 ? "verdict of rank 0: " : "verdict: ",
                     diagnosis.sentence));
  if (!threads.empty()) {
    Print("pipeline threads: " + threads);
  } else if (diagnosis.threads > 1) {
    Print(absl::StrCat("pipeline threads: settled on ", diagnosis.threads_now, " of at most ",
                       diagnosis.threads));
  }
}

void RunLog::PrintReduction(const TrainOutcome& outcome, double exposed_fraction) const {
  if (communicator_.size() == 1 || outcome.reduction.steps == 0) return;
  for (const std::string& line : FormatReduction(outcome.reduction, exposed_fraction)) Print(line);
  if (!outcome.straggler || total_.steps == 0) return;
  Print(absl::StrFormat("%s of %.1f ms steps", outcome.straggler->ToString(),
                        1e3 * total_.step_seconds / static_cast<double>(total_.steps)));
}

}  // namespace millrace::trainer
