#ifndef MILLRACE_TRAINER_CHECKPOINT_CHECKPOINT_H_
#define MILLRACE_TRAINER_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/loss_scale.h"
#include "trainer/optimizer/slots.h"

namespace millrace::trainer {

// The place of one worker of a training on servers in its share of the data.
struct WorkerPosition {
  uint64_t batches = 0;      // done
  std::string resume_token;  // that of the last of them; empty before the first

  friend bool operator==(const WorkerPosition&, const WorkerPosition&) = default;
};

// The state of a training, without its tensors.
struct TrainState {
  uint64_t step = 0;         // steps done
  uint64_t updates = 0;      // steps done that were not skipped
  uint64_t epoch = 0;        // whole epochs done
  std::string resume_token;  // that of the last batch used; empty before the first
  uint64_t model_fingerprint = 0;
  uint64_t plan_fingerprint = 0;  // fingerprint of the training pipeline
  uint64_t data_fingerprint = 0;
  uint64_t global_batch = 0;
  std::string job;  // JobFile::weights_text
  // Of workers that do not go in step; `resume_token` is then of the one that has done least.
  // Empty: all ranks have used `step` batches.
  std::vector<WorkerPosition> workers;
  std::optional<LossScale> loss_scale;  // nullopt: losses are not scaled
  // Accuracy of the evaluation after this step, in [0, 1]; nullopt: there was none.
  std::optional<double> test_accuracy;

  friend bool operator==(const TrainState&, const TrainState&) = default;
};

struct Checkpoint {
  std::string path;
  TrainState state;
  TensorSet weights;
  TensorSet buffers;
  std::map<std::string, TensorFile::Tensor> others;  // by name: "momentum/conv1/weights"
};

// The tensors of one model, which a checkpoint is made of. It borrows.
struct ModelTensors {
  const Model& model;
  const TensorSet& weights;
  const Slots& slots;
  const TensorSet& buffers;
};

// The checkpoints that stay when another one is saved.
struct KeepRule {
  int newest = 3;  // at least 1
  int best = 0;    // by test accuracy; of equal ones the newer
};

// The checkpoints of one job: "checkpoint-00000940.safetensors" holds the state after 940 steps.
// Used by one rank. Thread-compatible.
class CheckpointFolder {
 public:
  // `warn` receives warnings about a checkpoint that was saved nevertheless; may be empty.
  // `write_function` is for tests.
  CheckpointFolder(std::string folder, KeepRule keep,
                   std::function<void(std::string_view)> warn = {},
                   WriteFunction write_function = {})
      : folder_(std::move(folder)),
        keep_(keep),
        warn_(std::move(warn)),
        write_function_(std::move(write_function)) {}

  // Writes a checkpoint of one model or several, durable when this returns, then removes those that
  // need not stay, and the temporary files of killed writers; a file that cannot be removed stays,
  // with a warning. Makes the folder if it is missing. Returns the path.
  //   ALREADY_EXISTS  there is a checkpoint of this step: another training uses the folder
  absl::StatusOr<std::string> Save(const TrainState& state,
                                   std::span<const ModelTensors> models) const;

 private:
  absl::Status RemoveOld() const;

  const std::string folder_;
  const KeepRule keep_;
  const std::function<void(std::string_view)> warn_;
  const WriteFunction write_function_;
};

// Makes `folder` if it is missing, and checks that a file can be made in it.
//   INVALID_ARGUMENT  it is no path of this host
//   other             it cannot be made, or no file in it
absl::Status CheckWritable(const std::string& folder);

// The paths of the checkpoints in `folder`, that with the highest number first; none if there is no
// such folder.
absl::StatusOr<std::vector<std::string>> ListCheckpoints(const std::string& folder);

// True if a file with this metadata is a checkpoint.
bool IsCheckpoint(const std::map<std::string, std::string>& metadata);

// Reads and verifies one checkpoint of `model`.
//   DATA_LOSS            the file, which is named, is damaged
//   FAILED_PRECONDITION  it is of another model
absl::StatusOr<Checkpoint> LoadCheckpoint(const std::string& path, const Model& model);

// Renames a damaged checkpoint, so that it is none any more, and its step can be saved again.
// Returns the new path, "PATH.damaged".
absl::StatusOr<std::string> SetAside(const std::string& path);

// Moves the tensors of a slot out of `checkpoint`, which is of `model`.
//   NOT_FOUND  it lacks one of them, or one has another shape; the text names the file
absl::StatusOr<TensorSet> TakeSlot(const std::string& name, const Model& model,
                                   Checkpoint& checkpoint);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_CHECKPOINT_CHECKPOINT_H_
