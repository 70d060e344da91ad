#ifndef MILLRACE_TRAINER_INFERENCE_H_
#define MILLRACE_TRAINER_INFERENCE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "trainer/report.h"

// A job's model with trained weights, without a training: its metrics, and its outputs.

namespace millrace::trainer {

struct InferenceOptions {
  std::string job_path;                          // job.pbtxt
  std::map<std::string, std::string> variables;  // ${NAME} in the job's files
  // The file of the weights: a checkpoint, a folder of checkpoints, of which the newest whole one
  // is taken, or a safetensors file with our names or PyTorch's. Empty: the job's folder of
  // checkpoints.
  std::string checkpoint;
  std::string plan_path;  // the plan of the data; empty: the job's evaluation plan
  // True for the average of the weights, if the job has one (ema) and the file is a checkpoint.
  bool use_average = true;
  // Of PredictJob, for an adversarial job: the number of samples that the generator makes, and the
  // seed of their noise.
  int64_t samples = 0;
  uint64_t seed = 0;
  // Of PredictJob: set from a signal handler, to end without a file. Null: nothing ends it.
  const std::atomic<bool>* stop = nullptr;
  int threads = 0;              // cores of this rank; 0: usable cores / local ranks
  std::string device;           // as in TrainOptions
  std::vector<int> devices;     // as in TrainOptions
  std::string quarantine_file;  // as in TrainOptions
  // As in TrainOptions.
  std::chrono::milliseconds stall_report{3000};
  std::chrono::milliseconds stall_abort{60'000};
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
  // Called on rank 0 after each batch: batches that are done, and those of the whole plan (0: not
  // known); where samples are made, numbers of them. May be empty.
  std::function<void(int64_t done, int64_t total)> progress;
  // As in TrainOptions. They may be empty.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> index_progress;
  std::function<void(std::string_view line)> warn;
  std::function<void(const absl::Status& status)> report;
};

struct EvaluationOutcome {
  WeightsUsed weights;  // on rank 0
  EvaluationLine metrics;
};

// Evaluates the job's model on this rank of `communicator`; every rank calls it. Every sample
// counts exactly once over all ranks, and padding does not count; the metrics have the bits of
// those that Train prints with as many ranks. Nothing is written. Blocks until it is done.
//   INVALID_ARGUMENT     a file is wrong ("FILE:LINE:COLUMN: ..."), the job has several models or
//                        no evaluation plan,
//                        the plan lacks a field, the weights do not fit the model (the text names
//                        the tensors and both shapes), or the ranks' settings differ
//   NOT_FOUND            a file is missing, there is no checkpoint, or it has no average
//   FAILED_PRECONDITION  the checkpoint is of another model whose tensors have the same shapes
//   DATA_LOSS            the weights, or all checkpoints of the folder, are damaged
//   CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE  as Train
absl::StatusOr<EvaluationOutcome> EvaluateJob(const InferenceOptions& options,
                                              collectives::Communicator& communicator);

struct PredictionOutcome {
  WeightsUsed weights;
  int64_t samples = 0;
};

// Writes the outputs of the job's model for each sample of the plan, in the order of the stream, to
// `out`, which appears whole or not at all: tf.train.Examples (.tfrecord), CSV (.csv) or JSON lines
// (.jsonl), by its name. The plan need not have the targets. Of an adversarial job, writes what the
// generator makes of noise. docs/training.md describes the fields. Runs on this process alone.
//   INVALID_ARGUMENT  `out` has another extension, or is a folder; `samples` are asked of a model
//                     that reads a plan, or a plan of a generator; or as EvaluateJob
//   OUT_OF_RANGE      an output is infinite or NaN (the text names the record)
//   CANCELLED         `stop` was set
//   other             as EvaluateJob; `out` cannot be written
absl::StatusOr<PredictionOutcome> PredictJob(const InferenceOptions& options,
                                             const std::string& out);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_INFERENCE_H_
