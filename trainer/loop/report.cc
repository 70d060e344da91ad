#include "trainer/report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"

namespace millrace::trainer {

void StepTimes::Add(int64_t num_samples, double step, double wait) {
  ++steps;
  samples += num_samples;
  step_seconds += step;
  wait_seconds += wait;
}

void GradientNorms::Add(bool skip, double norm, float clip_factor) {
  if (skip) {
    ++skipped;
    return;
  }
  if (clip_factor < 1) ++clipped;
  // NaN counts as larger than any number, so that it is shown.
  if (!std::isnan(largest) && !(norm <= largest)) largest = norm;
}

std::string FormatStep(const StepLine& line) {
  const StepTimes& times = line.times;
  const double steps = static_cast<double>(std::max<uint64_t>(1, times.steps));
  const double rate =
      times.step_seconds > 0 ? static_cast<double>(times.samples) / times.step_seconds : 0;
  std::string text = absl::StrFormat(
      "step %d/%d  epoch %.2f  loss %.4f  %.0f img/s  step %.1f ms  data wait %.1f ms (%.1f%%)  "
      "lr %.4g",
      line.step, line.total_steps, line.epoch, line.loss, rate, 1e3 * times.step_seconds / steps,
      1e3 * times.wait_seconds / steps, 100 * times.wait_fraction(), line.learning_rate);
  if (line.generator_loss) {
    absl::StrAppendFormat(&text, "  generator loss %.4f", *line.generator_loss);
  }
  if (line.shows_norm) {
    absl::StrAppendFormat(&text, "  norm %.4f (%d clipped)", line.norms.largest,
                          line.norms.clipped);
  }
  if (line.norms.skipped > 0) absl::StrAppendFormat(&text, "  skipped %d", line.norms.skipped);
  if (!line.straggler.empty()) absl::StrAppend(&text, "  ", line.straggler);
  return text;
}

std::string FormatTotal(const StepTimes& all, const StepTimes& rest) {
  std::string text = absl::StrFormat("total: %d steps, %d samples in %.1f s of training", all.steps,
                                     all.samples, all.step_seconds);
  if (rest.step_seconds > 0) {
    absl::StrAppendFormat(&text, "; %.0f img/s without the first step",
                          static_cast<double>(rest.samples) / rest.step_seconds);
  }
  return text;
}

std::vector<std::string> FormatReduction(const collectives::ReducerCounters& counters,
                                         double exposed_fraction) {
  constexpr size_t kMaxBuckets = 16;
  const auto steps = static_cast<double>(std::max<int64_t>(1, counters.steps));
  const auto cost = [steps](const collectives::ReducerCounters::Bucket& sum) {
    return absl::StrFormat("%s a step, %.2f ms of work, %.2f ms exposed",
                           BytesText(static_cast<double>(sum.bytes) / steps),
                           1e3 * sum.seconds / steps, 1e3 * sum.exposed_seconds / steps);
  };
  const size_t count = counters.buckets.size();
  std::vector<std::string> lines = {absl::StrFormat(
      "reduction: %d bucket%s, %s (%.1f%% of step time on the rank that waited most)", count,
      count == 1 ? "" : "s", cost(counters.total()), 100 * exposed_fraction)};
  if (counters.gather_seconds != 0) {
    lines.push_back(
        absl::StrFormat("  gathering shards: %.2f ms", 1e3 * counters.gather_seconds / steps));
  }
  for (size_t i = 0; i < count && count > 1; ++i) {
    if (i == kMaxBuckets) {
      lines.push_back(absl::StrFormat("  and %d buckets more", count - i));
      break;
    }
    lines.push_back(absl::StrFormat("  bucket %d: %s", i, cost(counters.buckets[i])));
  }
  return lines;
}

std::string FormatEvaluation(const EvaluationLine& line) {
  std::string text = line.epoch ? absl::StrCat("epoch ", *line.epoch, ": ") : "";
  const auto total = static_cast<double>(std::max<int64_t>(1, line.total));
  if (line.mean_error) {
    absl::StrAppendFormat(&text, "test error %.4f (mean absolute)", *line.mean_error);
  } else {
    absl::StrAppendFormat(&text, "test accuracy %.4f (%d/%d)",
                          static_cast<double>(line.correct) / total, line.correct, line.total);
  }
  if (line.in_top5) {
    absl::StrAppendFormat(&text, ", top-5 %.4f", static_cast<double>(*line.in_top5) / total);
  }
  if (line.auc && std::isnan(*line.auc)) {
    text += ", AUC undefined";
  } else if (line.auc) {
    absl::StrAppendFormat(&text, ", AUC %.4f", *line.auc);
  }
  return absl::StrFormat("%s, loss %.4f", text, line.mean_loss);
}

std::string FormatWeights(const WeightsUsed& weights) {
  const std::string step = weights.step ? absl::StrCat(", step ", *weights.step) : "";
  return absl::StrCat("weights: ", weights.path, step, weights.is_average ? ", their average" : "");
}

std::vector<std::string> FormatTable(
    const std::vector<std::pair<std::string, std::string>>& settings) {
  size_t width = 0;
  for (const auto& [name, value] : settings) width = std::max(width, name.size());
  std::vector<std::string> lines;
  for (const auto& [name, value] : settings) {
    lines.push_back(absl::StrFormat("%-*s  %s", static_cast<int>(width), name, value));
  }
  return lines;
}

}  // namespace millrace::trainer
