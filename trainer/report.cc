#include "trainer/report.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace millrace::trainer {

void StepTimes::Add(int64_t num_samples, double step, double wait) {
  ++steps;
  samples += num_samples;
  step_seconds += step;
  wait_seconds += wait;
}

std::string FormatStep(const StepLine& line) {
  const StepTimes& times = line.times;
  const double steps = static_cast<double>(std::max<uint64_t>(1, times.steps));
  const double rate =
      times.step_seconds > 0 ? static_cast<double>(times.samples) / times.step_seconds : 0;
  return absl::StrFormat(
      "step %d/%d  epoch %.2f  loss %.4f  %.0f img/s  step %.1f ms  data wait %.1f ms (%.1f%%)  "
      "lr %.4f",
      line.step, line.total_steps, line.epoch, line.loss, rate, 1e3 * times.step_seconds / steps,
      1e3 * times.wait_seconds / steps, 100 * times.wait_share(), line.learning_rate);
}

std::string FormatEvaluation(uint64_t epoch, int64_t correct, int64_t total, double mean_loss) {
  const double accuracy = total > 0 ? static_cast<double>(correct) / static_cast<double>(total) : 0;
  return absl::StrFormat("epoch %d: test accuracy %.4f (%d/%d), loss %.4f", epoch, accuracy,
                         correct, total, mean_loss);
}

std::string InputVerdict(double wait_share) {
  if (wait_share < 0.05) return "NOT input-bound";
  return wait_share < 0.20 ? "MODERATELY input-bound" : "HIGHLY input-bound";
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
