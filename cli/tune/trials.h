#ifndef MILLRACE_CLI_TUNE_TRIALS_H_
#define MILLRACE_CLI_TUNE_TRIALS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/tune/setting.h"
#include "cli/tune/target.h"
#include "pipeline/diagnosis.h"
#include "pipeline/stretch.h"

namespace millrace::cli {

// The time of the steady clock.
double SecondsNow();

// Turns of a target under settings that change. Each goes on with the stream where the one before
// it has stopped, so that all read data of one kind, and no turn finds its data in the page cache
// because the one before has read it. At its end the stream begins again. Thread-compatible.
class Trials {
 public:
  // A turn takes about `turn_seconds`, and at least a few batches. `target` outlives it.
  Trials(TuneTarget& target, double turn_seconds) : target_(target), turn_seconds_(turn_seconds) {}

  // Returns the samples per second of a turn.
  //   errors  those of TuneTarget
  absl::StatusOr<double> Turn(const Settings& settings);

  // Returns the diagnosis of the last turns under these settings, as long as one pipeline took them
  // without a new start of the stream; nullopt: there was no such turn.
  std::optional<pipeline::Diagnosis> DiagnosisOf(const Settings& settings) const;

  // Returns the defaults that the target, which says `own`, has on this machine. Opens it.
  absl::StatusOr<Defaults> FindDefaults(const Settings& own);

 private:
  struct Count {
    int64_t batches = 0;
    int64_t samples = 0;
  };
  absl::Status Open(const Settings& settings);
  absl::Status Take(Count& count);
  absl::StatusOr<Count> RunFor(double seconds, int64_t batches);
  void Diagnose(const Settings& settings);

  TuneTarget& target_;
  const double turn_seconds_;
  std::optional<Settings> settings_;          // those that are open
  std::optional<pipeline::Stretch> stretch_;  // of the turns under them; nullopt: there was none
  std::vector<std::pair<Settings, pipeline::Diagnosis>> diagnoses_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_TRIALS_H_
