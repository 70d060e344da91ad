#ifndef MILLRACE_TRAINER_SERVER_CHIEF_H_
#define MILLRACE_TRAINER_SERVER_CHIEF_H_

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/loop/parts.h"
#include "trainer/loop/session.h"
#include "trainer/report.h"
#include "trainer/server/cluster.h"
#include "trainer/server/server_links.h"
#include "trainer/train.h"

namespace millrace::trainer {

// The duties of worker 0 beside its gradients: the lines of the run, evaluation and checkpoints.
// Thread-compatible.
class Chief {
 public:
  // All outlive it; `session` is open, `tensors` are those of the beginning.
  Chief(const TrainParts& parts, const TrainOptions& options, const ServerCluster& cluster,
        Session& session, ServerLinks& links, AllTensors tensors);

  void PrintStart() const;
  // Notes a batch of the chief: the time that it waited for it.
  void NoteWait(double seconds) { times_.wait_seconds += seconds; }
  // Does what is due after the updates that `progress` tells. The session's weights may be newer
  // then. Returns true if it took a while.
  absl::StatusOr<bool> After(const wire::Progress& progress);
  // The version before which nothing is due.
  uint64_t NextDue() const;
  // Does what is left when no update is left or the training is to stop, and tells the servers.
  absl::StatusOr<TrainOutcome> Finish(const wire::Progress& progress);

 private:
  struct Due {
    bool line = false;
    bool evaluation = false;
    bool save = false;
  };
  Due DueBetween(uint64_t before, uint64_t now, bool is_last) const;
  absl::Status TakeSnapshot();
  absl::Status EvaluateNow();
  void PrintLine(const wire::Progress& progress);
  void PrintTotal(const TrainOutcome& outcome) const;
  // OUT_OF_RANGE: a value of `weights`, those after update `version`, is not finite.
  absl::Status CheckFinite(const TensorSet& weights, uint64_t version) const;
  // Begins to write the snapshot, unless that was begun before.
  absl::Status Save();
  // Waits for the file that is being written, and tells the servers.
  absl::Status AwaitSaved(bool is_last);
  void Print(const std::string& line) const;

  const TrainParts& parts_;
  const TrainOptions& options_;
  const ServerCluster& cluster_;
  Session& session_;
  ServerLinks& links_;
  AllTensors tensors_;       // of the snapshot
  wire::Progress progress_;  // the newest
  wire::Progress printed_;   // at the last line
  uint64_t seen_ = 0;        // the version up to which nothing is due
  StepTimes times_;          // since the last line
  double wait_seconds_ = 0;  // of all lines
  std::chrono::steady_clock::time_point line_begin_;
  std::chrono::steady_clock::time_point begin_;
  std::optional<uint64_t> saved_;      // the newest version whose file was begun
  std::optional<uint64_t> evaluated_;  // the newest version that was evaluated
  double accuracy_ = 0;                // of the newest evaluation
  uint64_t first_ = 0;                 // the version with which this run began
  std::future<absl::StatusOr<std::string>> writing_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_CHIEF_H_
