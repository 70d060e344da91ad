#ifndef MILLRACE_CLI_TUNE_CANDIDATES_H_
#define MILLRACE_CLI_TUNE_CANDIDATES_H_

#include <span>
#include <vector>

#include "cli/tune/setting.h"

// The candidates that the search measures, and their order where no diagnosis gives another
// (guided.h).
//
// Settings that only keep more work on its way (reads, batches, memory) are first raised together:
// where that gains nothing none of them binds, and they are not tried one by one. So one comparison
// stands for many, and settings that help only together are found.

namespace millrace::cli {

// The bounds of the search.
struct TuneLimits {
  int max_threads = 1;
  int max_memory_mib = 2048;
  double seconds = 60;  // of the whole search
  // Samples per second that are enough: then fewer threads count for more than a higher rate. 0: as
  // many as can be.
  double pace = 0;
  // True if the only settings are those that a job says for itself.
  bool job_fields_only = false;
};

// Another value of one setting.
struct Change {
  Setting setting = Setting::kThreads;
  int value = 0;

  friend bool operator==(const Change&, const Change&) = default;
};

// Changes that are made together.
using Candidate = std::vector<Change>;

// Returns the settings with the changes.
Settings With(Settings settings, const Candidate& candidate);

// Returns the candidates beside `now`, those that promise most first. None is outside the limits.
// `without_gain`: settings that were tried and are not faster.
std::vector<Candidate> CandidatesInOrder(const Settings& now, const Defaults& defaults,
                                         const TuneLimits& limits,
                                         std::span<const Settings> without_gain);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_CANDIDATES_H_
