#ifndef MILLRACE_CLI_LIVE_SNAPSHOT_H_
#define MILLRACE_CLI_LIVE_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/host_use.h"
#include "pipeline/diagnosis.h"
#include "pipeline/profile.h"

namespace millrace::cli {

// The steps of a training, as one rank counts them. Times in seconds.
struct StepFigures {
  uint64_t step = 0;  // of the whole job, over all its runs
  uint64_t total_steps = 0;
  double epoch = 0;
  std::optional<double> loss;  // the newest that is known of all ranks
  // Of this run.
  uint64_t steps = 0;
  int64_t samples = 0;  // over all ranks
  double step_seconds = 0;
  double wait_seconds = 0;  // the part of them spent waiting for batches
};

struct RankSnapshot {
  int rank = 0;
  int64_t records_bad = 0;
  std::optional<StepFigures> steps;  // of a training
  pipeline::PipelineProfile profile;
  // For a diagnosis; its pace and fetched bytes are those here.
  pipeline::DiagnosisOptions options;
  HostUse host;  // since the rank began; its process's share of one rank
  int64_t fetched_bytes = 0;
};

// The figures of a running program at one moment. A value type.
struct Snapshot {
  int64_t pid = 0;
  std::string command;  // "run" or "train"
  std::string name;     // NameOfFile
  std::string file;     // the plan or the job
  int world = 1;        // number of ranks
  double elapsed_seconds = 0;
  double asked_samples_per_second = 0;  // by emulated accelerators, which `run` has; 0: none
  std::vector<RankSnapshot> ranks;      // of this process; empty: none has opened
};

// A name that tells files of the same name apart: "imagenet_train" for imagenet/train.pbtxt. It has
// letters, digits, '_', '-' and '.', at most 40, and begins with no '.'.
std::string NameOfFile(const std::string& path);

// One JSON object on one line.
std::string ToJson(const Snapshot& snapshot);
//   DATA_LOSS  the text is no JSON object
absl::StatusOr<Snapshot> SnapshotOfJson(std::string_view text);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_SNAPSHOT_H_
