#include "trainer/telemetry/telemetry.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/metric_table.h"
#include "base/status.h"

namespace millrace::trainer {
namespace {

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

double Rate(const StepTimes& times) {
  return times.step_seconds > 0 ? static_cast<double>(times.samples) / times.step_seconds : 0;
}

double Fraction(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Telemetry>> Telemetry::Open(const TelemetryOptions& options,
                                                           Metrics& metrics) {
  std::unique_ptr<EventWriter> events;
  if (options.is_first && !options.tensorboard_folder.empty()) {
    auto opened = EventWriter::Open(options.tensorboard_folder, options.first_step);
    if (!opened.ok()) return Annotate(opened.status(), "tensorboard");
    events = *std::move(opened);
  }
  return std::unique_ptr<Telemetry>(new Telemetry(options, std::move(events), metrics));
}

Telemetry::Telemetry(const TelemetryOptions& options, std::unique_ptr<EventWriter> events,
                     Metrics& metrics)
    : options_(options),
      events_(std::move(events)),
      metrics_(metrics),
      steps_(metrics.counter(metric::kTrainSteps)),
      skipped_(metrics.counter(metric::kTrainSkippedSteps)),
      data_wait_(metrics.counter(metric::kTrainDataWait)),
      step_times_(metrics.histogram(metric::kTrainStepSeconds)),
      ranks_lost_(metrics.counter(metric::kRanksLost)) {}

void Telemetry::AddStep(const Step& step) {
  steps_.Add();
  if (step.skipped) skipped_.Add();
  data_wait_.Add(Nanoseconds(step.wait_seconds));
  step_times_.Add(Nanoseconds(step.seconds));
  if (options_.is_first) metrics_.counter(metric::kTrainSamples).Add(step.rows);
}

void Telemetry::AddLine(const StepLine& line) {
  metrics_.gauge(metric::kTrainStep).Set(static_cast<double>(line.step));
  metrics_.gauge(metric::kTrainEpoch).Set(line.epoch);
  metrics_.gauge(metric::kTrainLoss).Set(line.loss);
  metrics_.gauge(metric::kTrainLearningRate).Set(line.learning_rate);
  std::vector<Scalar> scalars = {{"train/loss", line.loss},
                                 {"train/learning_rate", line.learning_rate},
                                 {"train/images_per_second", Rate(line.times)},
                                 {"train/data_wait_fraction", line.times.wait_fraction()}};
  if (line.generator_loss) {
    metrics_.gauge(metric::kTrainGeneratorLoss).Set(*line.generator_loss);
    scalars.push_back({"train/generator_loss", *line.generator_loss});
  }
  if (line.shows_norm) {
    metrics_.gauge(metric::kTrainGradientNorm).Set(line.norms.largest);
    scalars.push_back({"train/gradient_norm", line.norms.largest});
  }
  Write(line.step, scalars);
}

void Telemetry::AddEvaluation(uint64_t step, const EvaluationLine& line) {
  metrics_.gauge(metric::kEvaluationLoss).Set(line.mean_loss);
  std::vector<Scalar> scalars = {{"evaluation/loss", line.mean_loss}};
  if (line.mean_error) {
    metrics_.gauge(metric::kEvaluationError).Set(*line.mean_error);
    scalars.push_back({"evaluation/error", *line.mean_error});
  } else {
    const double accuracy = Fraction(line.correct, line.total);
    metrics_.gauge(metric::kEvaluationAccuracy).Set(accuracy);
    scalars.push_back({"evaluation/accuracy", accuracy});
  }
  if (line.in_top5) scalars.push_back({"evaluation/top5", Fraction(*line.in_top5, line.total)});
  if (line.auc) scalars.push_back({"evaluation/auc", *line.auc});
  Write(step, scalars);
}

void Telemetry::Write(uint64_t step, std::span<const Scalar> scalars) {
  if (events_ == nullptr) return;
  const absl::Status written = events_->Write(step, scalars);
  if (written.ok()) return;
  // A full disk is no reason to end a training.
  if (options_.warn) options_.warn(absl::StrCat("no more events: ", written.message()));
  events_.reset();
}

}  // namespace millrace::trainer
