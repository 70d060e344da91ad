#ifndef MILLRACE_TRAINER_TRAIN_H_
#define MILLRACE_TRAINER_TRAIN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace millrace::trainer {

struct TrainOptions {
  std::string job_path;                          // job.pbtxt
  std::map<std::string, std::string> variables;  // ${NAME} in the job, the model and the pipelines
  bool resume = false;                           // continue from the job's newest checkpoint
  int threads = 0;            // cores of this rank; 0: usable cores / local ranks
  std::string launch_reason;  // for the start-up table
  // Damaged records of the training and the evaluation data are appended to this file, by all ranks
  // (pipeline::OpenOptions). Empty: to none.
  std::string quarantine_file;
  // Set from a signal handler: checkpoint on the same step on all ranks, then stop.
  const std::atomic<bool>* stop = nullptr;
  // Called on rank 0 after each step: steps done, and steps of the whole job. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
  // Called on rank 0 while files are indexed that have no index yet. May be empty.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> index_progress;
  // Receives each line of output; called on rank 0 only. Empty: nowhere.
  std::function<void(std::string_view line)> print;
  // Called once per failure, with what Train is going to return: on rank 0 for an error that all
  // ranks have, on the failing rank for one of its own. It comes before Abort, from which the MPI
  // backend does not return, so only here can the reason be told to the user. May be empty.
  std::function<void(const absl::Status& status)> report;
};

struct TrainOutcome {
  bool stopped = false;      // `stop` was seen; the checkpoint is durable
  uint64_t steps = 0;        // of the whole job, over all runs of it
  double test_accuracy = 0;  // of the last evaluation, in [0, 1]; 0 when there was none
  double last_loss = 0;
  double wait_share = 0;   // data wait / step time, first step excluded
  std::string checkpoint;  // path of the newest
};

// Trains the job on this rank of `communicator`; every rank calls it. Blocks until the job is done
// or stopped. An exception, also one of a callback, becomes a status.
//   INVALID_ARGUMENT     a file is wrong ("FILE:LINE:COLUMN: ..."), or the ranks' settings differ
//   ALREADY_EXISTS       a checkpoint exists and `resume` is not set
//   NOT_FOUND            `resume` is set and there is no checkpoint
//   FAILED_PRECONDITION  the checkpoint is of another job, model, plan or data (what differs is
//                        named)
//   DATA_LOSS            the checkpoint is damaged (file named)
//   OUT_OF_RANGE         the loss or a weight is not finite (step named); nothing is saved any more
//   RESOURCE_EXHAUSTED   no memory
//   CANCELLED            another rank failed, and reports it
absl::StatusOr<TrainOutcome> Train(const TrainOptions& options,
                                   collectives::Communicator& communicator);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_TRAIN_H_
