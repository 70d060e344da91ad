#include "collectives/mpi/sum_probe.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace millrace::collectives {

absl::StatusOr<double> MedianMs(const TimeOneSum& time, const SumBars& bars) {
  MILLRACE_ASSIGN_OR_RETURN(const double first, time());
  if (first >= bars.hopeless_ms) return first;
  MILLRACE_ASSIGN_OR_RETURN(const double one, time());
  MILLRACE_ASSIGN_OR_RETURN(const double other, time());
  const auto [shorter, longer] = std::minmax({one, other});
  if (shorter > bars.useful_ms) return shorter;
  MILLRACE_ASSIGN_OR_RETURN(const double last, time());
  return std::clamp(last, shorter, longer);
}

absl::StatusOr<WayChoice> ChooseWay(double ours_ms, std::span<const TimedWay> mpis) {
  WayChoice choice;
  double best = 0.9 * ours_ms;
  std::vector<std::string> times;
  for (size_t i = 0; i < mpis.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(
        const double time, MedianMs(mpis[i].time, {.hopeless_ms = 4 * ours_ms, .useful_ms = best}));
    times.push_back(absl::StrFormat("%.2f ms %s", time, mpis[i].name));
    if (time > best) continue;
    best = time;
    choice.way = i;
  }
  choice.times = absl::StrJoin(times, ", ");
  return choice;
}

}  // namespace millrace::collectives
