#ifndef MILLRACE_CLI_TUNE_TRIALS_H_
#define MILLRACE_CLI_TUNE_TRIALS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/context.h"
#include "cli/tune/setting.h"
#include "pipeline/diagnosis.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"
#include "pipeline/stretch.h"

namespace millrace::cli {

// The time of the steady clock.
double SecondsNow();

// Turns of a plan under settings that change. Each goes on with the stream where the one before it
// has stopped, so that all read data of one kind, and no turn finds its data in the page cache
// because the one before has read it. At its end the stream begins again. Thread-compatible.
class PlanTrials {
 public:
  // A turn takes about `turn_seconds`, and at least a few batches.
  PlanTrials(pipeline::Plan plan, double turn_seconds)
      : plan_(std::move(plan)), turn_seconds_(turn_seconds) {}

  // Opens the plan under these settings unless it is open so; indexing shows its progress.
  //   errors  those of MakeContext and Pipeline::Open
  absl::Status Open(const Settings& settings);
  // Returns the samples per second of a turn whose batches are dropped at once.
  //   errors  those of Open and of the stream; NOT_FOUND: the stream has no batch
  absl::StatusOr<double> Turn(const Settings& settings);

  // Returns the diagnosis of the last turns under these settings, as long as one pipeline took them
  // without a new start of the stream; nullopt: there was no such turn.
  std::optional<pipeline::Diagnosis> DiagnosisOf(const Settings& settings) const;

  // Returns the defaults that the plan, which says `own`, has on this machine. Opens it.
  absl::StatusOr<Defaults> FindDefaults(const Settings& own);

 private:
  struct Count {
    int64_t batches = 0;
    int64_t samples = 0;
  };
  absl::Status Begin(const Settings& settings);
  absl::Status Take(Count& count);
  absl::Status Restart();
  absl::StatusOr<Count> RunFor(double seconds, int64_t batches);
  void Diagnose(const Settings& settings);

  const pipeline::Plan plan_;
  const double turn_seconds_;
  std::optional<Settings> settings_;  // those of pipeline_
  std::shared_ptr<Context> context_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::optional<pipeline::Stretch> stretch_;  // of the turns of pipeline_; nullopt: it has not run
  std::vector<std::pair<Settings, pipeline::Diagnosis>> diagnoses_;
  std::string token_;        // where the stream goes on; empty: at its start
  std::string start_token_;  // of the start of the stream
  bool had_batch_ = false;   // true if the stream has given a batch since its start
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_TRIALS_H_
