#include "cli/emulate/max_fed.h"

#include <algorithm>

namespace millrace::cli {
namespace {

// The bounds known so far of the number that is searched for.
struct Bounds {
  int fed = 0;                         // this many are fed
  int starved = kMaxAccelerators + 1;  // this many are not
  bool fed_known = false;              // true if a trial has shown it
  bool starved_known = false;
};

int NextCount(const Bounds& bounds, int step) {
  if (bounds.fed_known && bounds.starved_known) {
    return bounds.fed + (bounds.starved - bounds.fed) / 2;
  }
  // If only one bound is known, a step from it must not pass the limit on the other side.
  const int next = bounds.fed_known ? bounds.fed + step : bounds.starved - step;
  return std::clamp(next, bounds.fed + 1, bounds.starved - 1);
}

}  // namespace

MaxFed FindMaxFed(double first_guess,
                  const std::function<absl::StatusOr<FeedTrial>(int)>& attempt) {
  MaxFed result;
  Bounds bounds;
  int count = static_cast<int>(std::clamp(first_guess, 1.0, double{kMaxAccelerators}));
  for (int step = 1; bounds.starved - bounds.fed > 1; step *= 2) {
    const absl::StatusOr<FeedTrial> trial = attempt(count);
    if (!trial.ok()) {
      result.status = trial.status();
      break;
    }
    result.trials.push_back(*trial);
    if (trial->utilisation >= kFedUtilisation) {
      bounds.fed = count;
      bounds.fed_known = true;
    } else {
      bounds.starved = count;
      bounds.starved_known = true;
    }
    count = NextCount(bounds, std::min(step, kMaxAccelerators));
  }
  result.accelerators = bounds.fed;
  result.or_more = bounds.fed == kMaxAccelerators;
  return result;
}

}  // namespace millrace::cli
