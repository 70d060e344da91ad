#ifndef MILLRACE_TRAINER_TRAIN_H_
#define MILLRACE_TRAINER_TRAIN_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/metrics.h"
#include "collectives/communicator.h"
#include "collectives/reducer_counters.h"
#include "collectives/stragglers.h"

namespace millrace::trainer {

class RankView;  // rank_view.h

// A field of a message by its name in text format, and its value ("2.5", "true", "bfloat16").
struct FieldValue {
  std::string name;
  std::string value;
};

struct TrainOptions {
  std::string job_path;                          // job.pbtxt
  std::map<std::string, std::string> variables;  // ${NAME} in the job, the model and the pipelines
  std::vector<FieldValue> reduction;  // fields of the job's `reduction`, in place of the file's
  // Fields of the job's `strategy { parameter_server {} }`, in place of the file's.
  std::vector<FieldValue> servers;
  bool resume = false;  // true to continue from the job's newest checkpoint
  // With `resume`: true to continue although the job, the training plan or the data have changed
  // since the checkpoint; `warn` tells what is lost.
  bool force = false;
  // True for steps that leave nothing behind: no checkpoint is written or looked for, and nothing
  // is evaluated, whatever the job says.
  bool leaves_nothing = false;
  int threads = 0;     // cores of this rank; 0: usable cores / local ranks
  int replicas = 0;    // for TrainReplicas: ranks of this process; 0: as the job says
  std::string device;  // "cpu" or "cuda", in place of the job's; empty: as the job says
  // The CUDA devices of this process's ranks, one each. Empty: each rank has the one numbered as
  // the rank within its host.
  std::vector<int> devices;
  std::string launch_reason;  // for the start-up table
  // The file to which all ranks append the damaged records of the training and the evaluation data
  // (pipeline::OpenOptions). Empty: none.
  std::string quarantine_file;
  // The time after which a rank that keeps others waiting is named by `warn`, and the time after
  // which it is given up (0: never). Before the first step and after the last, a rank whose process
  // runs is not given up.
  std::chrono::milliseconds stall_report{3000};
  std::chrono::milliseconds stall_abort{60'000};
  // The longest that a rank waits for the others in each operation until the watchdogs are there,
  // if the communicator has no timeout of its own; 0: for ever.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
  // The file to which the timeline of all ranks is written at the end (collectives/timeline.h); a
  // warning tells if that fails. After the loss of a rank it holds the remaining ranks of one file
  // system. All ranks name a file, or none does. Empty: no timeline.
  std::string timeline_file;
  // The file to which what all ranks did in the first `trace_time` is written once that is over, or
  // at the end: their pipelines, steps and sums (Chrome trace format). After the loss of a rank it
  // is empty. All ranks name a file, or none does. Empty: no trace.
  std::string trace_file;
  std::chrono::nanoseconds trace_time = std::chrono::seconds(10);
  // The registry of this rank's pipelines and of its steps. Ranks of one process may share it.
  // Null: one that nobody sees.
  std::shared_ptr<Metrics> metrics;
  // The folder in which rank 0 makes an event file for TensorBoard. Empty: none.
  std::string tensorboard_folder;
  // Set from a signal handler: checkpoint on the same step on all ranks, then stop.
  const std::atomic<bool>* stop = nullptr;
  // Called on rank 0 after each step: steps done, and steps of the whole job. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
  // Called on rank 0 after each batch of an evaluation: batches that are done, and those of the
  // whole evaluation (0: not known). May be empty.
  std::function<void(int64_t done, int64_t total)> evaluation_progress;
  // Called on every rank after each step with the step's number and this rank's weights; in an
  // adversarial job with the discriminator's, then with the generator's. No other rank learns of
  // changes that it makes there. May be empty.
  std::function<void(uint64_t step, std::vector<std::vector<float>>& weights)> on_weights;
  // Called on every rank that has opened, before its first step, with a view of it that is valid
  // for as long as it is held; of a training on parameter servers, on every worker. Calls of
  // replicas may overlap. May be empty.
  std::function<void(std::shared_ptr<const RankView> rank)> observe;
  // Called on rank 0 while files are indexed that have no index yet. May be empty.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> index_progress;
  // Receives each line of output; called on rank 0 only. Empty: nowhere.
  std::function<void(std::string_view line)> print;
  // Receives warnings: things that a user should know but need not act on. Called on any rank and
  // any thread; an exception on the watchdog's thread is dropped. May be empty.
  std::function<void(std::string_view line)> warn;
  // Called once per failure, with the status that Train is going to return: on rank 0 for an error
  // that all ranks have, on the failing rank for one of its own. It is called before Abort, from
  // which the MPI backend does not return, so only here can the user be told the reason. May be
  // empty.
  std::function<void(const absl::Status& status)> report;
};

// Gradients and workers of a run on parameter servers.
struct ServerCounts {
  std::vector<uint64_t> staleness;  // gradients that were used, by staleness
  uint64_t dropped = 0;             // gradients that came too late
  uint64_t lost = 0;                // workers
  uint64_t joined = 0;              // workers that came in the place of a lost one
  uint64_t unread = 0;              // batches of workers that were missing at the end
};

struct TrainOutcome {
  bool stopped = false;      // true if `stop` was seen; the checkpoint is durable
  uint64_t steps = 0;        // steps of the whole job, over all its runs
  uint64_t skipped = 0;      // steps of this run whose gradients were not finite
  double test_accuracy = 0;  // accuracy of the last evaluation, in [0, 1]; 0 if there was none
  double test_loss = 0;      // mean loss of that evaluation
  double last_loss = 0;      // of an adversarial job the discriminator's
  double last_generator_loss = 0;
  double wait_fraction = 0;  // data wait / step time, first step excluded
  std::string checkpoint;    // path of the newest checkpoint
  // The cost of this rank's gradient reductions in this run.
  collectives::ReducerCounters reduction;
  // The rank that the others awaited longest, of all steps but the first and the last; the same on
  // all ranks. nullopt: no rank was awaited.
  std::optional<collectives::Straggler> straggler;
  ServerCounts servers;  // of a training on parameter servers, on its first worker
};

// Trains the job on this rank of `communicator`; every rank calls it. Blocks until the job is done
// or stopped. An exception, also one of a callback, becomes a status.
//   INVALID_ARGUMENT     a file is wrong ("FILE:LINE:COLUMN: ..."), or the ranks' settings differ
//   ALREADY_EXISTS       a checkpoint exists and `resume` is not set
//   NOT_FOUND            `resume` is set and there is no checkpoint
//   FAILED_PRECONDITION  the checkpoint is of another job, model, plan or data (the text names the
//                        difference)
//   DATA_LOSS            the checkpoint is damaged (the text names the file); the ranks' weights
//                        differ (it names the first parameter)
//   OUT_OF_RANGE         the loss or a weight is not finite (the text names the step), or the
//                        gradients of too many steps in a row are not; nothing is saved any more
//   RESOURCE_EXHAUSTED   no memory
//   CANCELLED            another rank failed, and reports it; the lowest of the others has saved
//                        the last whole step if it could, and warns about the result
//   DEADLINE_EXCEEDED    a rank, which is named, has not come within `start_timeout` or the
//                        communicator's timeout
//   UNAVAILABLE          a rank is lost (collectives::PeerLostOf): every other rank reports it; the
//                        lowest of them has saved the last whole step if it could
absl::StatusOr<TrainOutcome> Train(const TrainOptions& options,
                                   collectives::Communicator& communicator);

// The compute libraries of this build with their versions: {"oneDNN 2.6.3"}.
std::vector<std::string> BackendNames();

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_TRAIN_H_
