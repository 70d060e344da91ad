#include "trainer/explain/rate_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace::trainer {
namespace {

constexpr uint64_t kWidth = 64;
constexpr int kHeight = 10;

// The rates of the steps that the columns stand for: from the first step to the last one.
std::vector<double> Sample(const Schedule& schedule, uint64_t total_steps) {
  const uint64_t columns = std::min(kWidth, total_steps);
  std::vector<double> rates;
  for (uint64_t i = 0; i < columns; ++i) {
    const double part =
        columns == 1 ? 0 : static_cast<double>(i) / static_cast<double>(columns - 1);
    rates.push_back(schedule.RateAt(
        static_cast<uint64_t>(std::llround(part * static_cast<double>(total_steps - 1)))));
  }
  return rates;
}

// The row of a rate, from 0 at the bottom.
int RowOf(double rate, double top) {
  return top > 0 ? static_cast<int>(std::lround(rate / top * (kHeight - 1))) : 0;
}

std::string ValuesLine(const Schedule& schedule, uint64_t total_steps) {
  const auto at = [&](uint64_t step, const char* what) {
    return absl::StrFormat("step %d%s: %.4g", step, what, schedule.RateAt(step - 1));
  };
  std::string text = at(1, "");
  const uint64_t warmup = schedule.warmup_steps();
  if (warmup > 1 && warmup < total_steps) {
    absl::StrAppend(&text, "; ", at(warmup, " (end of the warm-up)"));
  }
  if (total_steps > 1) absl::StrAppend(&text, "; ", at(total_steps, " (the last)"));
  return text;
}

}  // namespace

std::vector<std::string> PlotRates(const Schedule& schedule, uint64_t total_steps) {
  const std::vector<double> rates = Sample(schedule, total_steps);
  const double top = std::ranges::max(rates);
  std::vector<std::string> lines;
  for (int row = kHeight - 1; row >= 0; --row) {
    const bool is_labelled = row == kHeight - 1 || row == 0;
    const double label = row == 0 ? 0 : top;
    std::string line =
        is_labelled ? absl::StrFormat("%10.4g |", label) : std::string("           |");
    for (const double rate : rates) line += RowOf(rate, top) == row ? '*' : ' ';
    lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  lines.push_back("           +" + std::string(rates.size(), '-'));
  lines.push_back("            " + ValuesLine(schedule, total_steps));
  return lines;
}

}  // namespace millrace::trainer
