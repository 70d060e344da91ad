#ifndef MILLRACE_TRAINER_SERVER_WORKER_H_
#define MILLRACE_TRAINER_SERVER_WORKER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/loop/parts.h"
#include "trainer/loop/running_rank.h"
#include "trainer/loop/session.h"
#include "trainer/server/chief.h"
#include "trainer/server/cluster.h"
#include "trainer/server/server_links.h"
#include "trainer/train.h"

namespace millrace::trainer {

// A worker: again and again it takes weights from the servers and a batch from its slice of the
// data, and brings the gradient. Worker 0, the chief, also evaluates, saves and prints.
// Thread-compatible.
class Worker {
 public:
  // All outlive it; `session` has its files.
  Worker(const TrainParts& parts, const TrainOptions& options, const ServerCluster& cluster,
         const std::vector<std::vector<size_t>>& placed, Session& session);

  // The outcomes are TrainOnServers'.
  absl::StatusOr<TrainOutcome> Run();

 private:
  bool is_chief() const { return cluster_.index == 0; }
  absl::Status Open();
  absl::Status OpenAsChief();
  absl::Status OpenAsOther();
  absl::Status MakeBackend();
  absl::StatusOr<TrainOutcome> Train();
  absl::StatusOr<wire::Progress> Next();
  // Makes the gradient of the next batch, and brings it.
  absl::StatusOr<wire::Progress> Step();
  absl::StatusOr<std::optional<pipeline::Batch>> ReadBatch();
  absl::StatusOr<pipeline::Batch> NextBatch();
  absl::StatusOr<wire::Report> Compute(const pipeline::Batch& batch);
  absl::StatusOr<TrainOutcome> End(const wire::Progress& progress);
  // Tells the figures after a step of this worker.
  void Show(const Observed& observed, const wire::Progress& progress) const;
  TrainOutcome EndOfOther(bool is_stopped) const;
  bool IsStopWanted() const;

  const TrainParts& parts_;
  const TrainOptions& options_;
  const ServerCluster& cluster_;
  Session& session_;
  ServerLinks links_;
  TensorSet gradient_;
  std::unique_ptr<Chief> chief_;  // on the chief
  bool has_read_ = false;         // true after the first batch
  uint64_t batches_ = 0;          // done, of this worker
  StepTimes times_;               // of this worker's steps in this run
  uint64_t all_batches_ = 0;      // of each worker
  bool has_asked_ = false;        // true if the chief has asked the servers to stop
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_WORKER_H_
