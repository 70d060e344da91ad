#ifndef MILLRACE_CLI_TUNE_SEARCH_H_
#define MILLRACE_CLI_TUNE_SEARCH_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/tune/candidates.h"
#include "cli/tune/comparison.h"
#include "cli/tune/setting.h"

// The search of `millrace tune`: candidates are compared with the settings found so far, in turns
// A B B A, by which a drift of the machine cancels out.
//
// A change is kept if it gains at least 3 % and more than the noise, over at least two such rounds.
// Fewer threads, and less of what the search itself has raised, are kept if they are as fast, with
// at most 1 % lost in all. After each change the candidates are made anew, and those that go on in
// the same direction come first of their group. The search ends when every candidate was tried
// beside the settings, those of an unclear outcome up to three times, or with the time.

namespace millrace::cli {

// How settings are measured. Tests put in functions without time.
struct TuneBench {
  std::function<double()> now;  // seconds since some moment
  // Runs the pipeline for a turn; returns its samples per second.
  std::function<absl::StatusOr<double>(const Settings& settings)> turn;
};

struct TriedChange {
  enum class Outcome {
    kKept,
    kNoGain,
    kUnclear,    // the noise was larger than the gain, or the time was over
    kDidNotRun,  // the pipeline ended with an error
  };
  Candidate candidate;
  std::vector<int> before;  // the values that counted before, one for each change
  Settings settings;        // with the changes
  Turns turns_before;
  Turns turns;
  Comparison comparison;
  Outcome outcome = Outcome::kNoGain;
  std::string error;  // kDidNotRun
};

struct TuneResult {
  enum class End { kTriedAll, kTime, kPace };
  Settings settings;
  Turns start;  // turns of the settings of the beginning
  Turns best;   // the last turns of the settings found
  std::vector<TriedChange> tried;
  End end = End::kTriedAll;
};

// Candidates by their promise: a group is tried once nothing is left of those before it.
using CandidateGroups = std::vector<std::vector<Candidate>>;

// Returns the candidates beside these settings: CandidatesInOrder, as a model of the pipeline sorts
// them.
using Candidates =
    std::function<CandidateGroups(const Settings& now, std::span<const Settings> without_gain)>;

// Searches from `start`, which is inside the limits. `seen` is called after each turn with the
// seconds since the beginning; may be empty.
//   value   the result, which is `start` if nothing was better
//   errors  those of a turn of settings that had run before
absl::StatusOr<TuneResult> Tune(const Settings& start, const Defaults& defaults,
                                const TuneLimits& limits, const Candidates& candidates,
                                const TuneBench& bench, const std::function<void(double)>& seen);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_SEARCH_H_
