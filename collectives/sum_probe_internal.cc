#include "collectives/sum_probe_internal.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace millrace::collectives {

absl::StatusOr<double> MedianMs(const TimeOneSum& time, double hopeless_ms) {
  constexpr int kTurns = 3;
  MILLRACE_ASSIGN_OR_RETURN(const double first, time());
  if (first >= hopeless_ms) return first;
  std::array<double, kTurns> times;
  for (double& turn : times) {
    MILLRACE_ASSIGN_OR_RETURN(turn, time());
  }
  std::sort(times.begin(), times.end());
  return times[kTurns / 2];
}

absl::StatusOr<WayChoice> ChooseWay(double ours_ms, std::span<const TimedWay> mpis) {
  WayChoice choice;
  double best = 0.9 * ours_ms;
  std::vector<std::string> times;
  for (size_t i = 0; i < mpis.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const double time, MedianMs(mpis[i].time, 4 * ours_ms));
    times.push_back(absl::StrFormat("%.2f ms %s", time, mpis[i].name));
    if (time > best) continue;
    best = time;
    choice.way = i;
  }
  choice.times = absl::StrJoin(times, ", ");
  return choice;
}

}  // namespace millrace::collectives
