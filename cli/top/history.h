#ifndef MILLRACE_CLI_TOP_HISTORY_H_
#define MILLRACE_CLI_TOP_HISTORY_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cli/live/snapshot.h"
#include "cli/top/difference.h"
#include "cli/top/render.h"
#include "cli/top/verdict.h"

namespace millrace::cli {

// The last two snapshots of a program, and its rates over a minute. Thread-compatible.
class History {
 public:
  // A snapshot is added each `seconds`.
  explicit History(double seconds)
      : most_(static_cast<size_t>(std::clamp(60 / seconds, 2.0, 600.0))) {}

  void Add(Snapshot snapshot) {
    earlier_ = std::exchange(now_, std::move(snapshot));
    rates_.push_back(RateOf(Difference(earlier_ ? &*earlier_ : nullptr, *now_)));
    if (rates_.size() > most_) rates_.erase(rates_.begin());
  }
  bool empty() const { return !now_.has_value(); }
  // Borrows from this. REQUIRES: not empty().
  Shown shown() const {
    const Snapshot* const earlier = earlier_ ? &*earlier_ : nullptr;
    Verdict verdict = VerdictOf(Difference(earlier, *now_));
    return {earlier, &*now_, rates_, std::move(verdict.sentence), std::move(verdict.what_ifs)};
  }

 private:
  const size_t most_;
  std::optional<Snapshot> earlier_;
  std::optional<Snapshot> now_;
  std::vector<double> rates_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_HISTORY_H_
