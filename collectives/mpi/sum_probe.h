#ifndef MILLRACE_COLLECTIVES_MPI_SUM_PROBE_H_
#define MILLRACE_COLLECTIVES_MPI_SUM_PROBE_H_

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace millrace::collectives {

// Milliseconds of one sum, the same on every rank.
using TimeOneSum = std::function<absl::StatusOr<double>()>;

struct SumBars {
  double hopeless_ms = std::numeric_limits<double>::infinity();  // of the first sum, inclusive
  double useful_ms = std::numeric_limits<double>::infinity();    // of the median
};

// The median of three sums after a first one, which takes page faults and makes connections; that
// one's own time where it is hopeless already. Two sums that are not useful leave no useful median:
// then there is no third, and the result is the shorter of the two.
absl::StatusOr<double> MedianMs(const TimeOneSum& time, const SumBars& bars = {});

// One of MPI's ways to sum.
struct TimedWay {
  std::string name;
  TimeOneSum time;
};

struct WayChoice {
  std::optional<size_t> way;  // none: our messages
  std::string times;          // of MPI's ways: "1.50 ms over 1 MiB, 1.25 ms over 2 MiB"
};

// The fastest of MPI's ways, where it is a tenth faster than ours at least: ours has its bits
// whatever happens. A way that takes four times as long as ours is not tried again.
absl::StatusOr<WayChoice> ChooseWay(double ours_ms, std::span<const TimedWay> mpis);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MPI_SUM_PROBE_H_
