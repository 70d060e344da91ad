#ifndef MILLRACE_TRAINER_STRATEGY_STRATEGY_H_
#define MILLRACE_TRAINER_STRATEGY_STRATEGY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "collectives/reducer_counters.h"
#include "trainer/job/job.pb.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/optimizer.h"

namespace millrace::trainer {

namespace cuda {
class Device;
class ParameterStore;
}  // namespace cuda

// Turns the gradients of all ranks into new weights. A step is one batch or several. For each batch
// the loop sets the rows, marks every gradient and finishes; then it applies the sums that have
// come, which are of the same steps on every rank. Thread-compatible.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // The memory to which backward writes the sums over this rank's rows, one span for each
  // parameter. It stays the same at every step, and lives as long as the strategy. With a device it
  // is the device's, and the device's stream is behind what wrote it at MarkReady.
  virtual std::vector<std::span<float>> gradients() = 0;

  // The rows of the batch that begins. The rows that all ranks set add up to those of the batch.
  virtual void SetRows(int64_t rows) = 0;
  // Says that the gradient of parameter `i` is in its memory. Outcomes are
  // collectives::GradientReducer::MarkReady's.
  virtual absl::Status MarkReady(size_t i) = 0;
  // Ends the batch, and waits for the sums that are due. Outcomes are
  // collectives::GradientReducer::Finish's.
  virtual absl::Status Finish() = 0;
  // Stands for a batch that the last step of an epoch lacks: no rows, zero gradients.
  absl::Status FinishEmptyBatch();

  // Ends this rank's part in all steps; the others hear `why`.
  virtual void Leave(const absl::Status& why) = 0;

  // The number of steps whose sums came with the last Finish: 0 after a batch that does not end its
  // step; 0, 1 or several if sums come late.
  virtual size_t num_ready() const = 0;
  // Makes `update` of `weights` by the sums of the `i`th of these steps, the oldest first, unless
  // all ranks skip it. Returns the step's outcome, the same on all ranks. May be collective. With a
  // device the weights are those of the store, and the device may be left at work.
  //   UNAVAILABLE, DEADLINE_EXCEEDED  as Finish
  virtual absl::StatusOr<collectives::StepOutcome> Apply(size_t i, const UpdateStep& update,
                                                         TensorSet& weights) = 0;

  // Returns the optimizer's state of all parameters on rank 0; other ranks may get empty slots.
  // Called between two steps; the state lives until the next one. Collective unless
  // has_whole_slots().
  virtual absl::StatusOr<const Slots*> GatherSlots() = 0;
  // True if every rank has the whole state of the optimizer without the others.
  virtual bool has_whole_slots() const = 0;

  // The tensors of the device, which live as long as the strategy; null: there is no device, and
  // weights are the host's.
  virtual cuda::ParameterStore* store() { return nullptr; }
  // Copy tensors from the host to the device, or the other way round, and wait. Without a device
  // they do nothing. The weights of the device are zeros at first. Outcomes are ParameterStore's.
  absl::Status StoreWeights(const TensorSet& weights);
  absl::Status FetchWeights(TensorSet& weights);
  absl::Status StoreBuffers(const TensorSet& buffers);
  // True if all of `weights` are finite, or those of the device, which it waits for.
  absl::StatusOr<bool> AreFinite(const TensorSet& weights);

  // A line for the start-up table: "3 buckets: 1.0 MiB, 25.0 MiB, 12.4 MiB; ...".
  virtual std::string Summary() const = 0;
  // The cost of all steps whose sums have come, without that of GatherSlots.
  virtual collectives::ReducerCounters counters() const = 0;
};

struct StrategyOptions {
  uint64_t steps = 0;       // number of steps of this run
  uint64_t first_step = 0;  // number of its first step in the training
  int compute_threads = 1;
  collectives::Progress* progress = nullptr;  // outlives the strategy; null: none
  collectives::ReducerTeam* team = nullptr;   // of several strategies; null: this is the only one
  bool ranks_communicate = false;             // true if ranks also talk to each other before Finish

  // The device that computes and has the weights, which outlives the strategy; null: the host. The
  // reducer's gradients are in its memory then, and its stream is theirs in a group on devices.
  cuda::Device* device = nullptr;
  DType compute = DType::kF32;  // of the weights that products read on it: kF32, kBF16 or kF16
};

// Makes the strategy that `reduction` asks for; it and `optimizer` have their defaults filled in.
// `slots`, of all parameters, are zeros or a checkpoint's. `communicator` and `model` must outlive
// the strategy. Collective.
//   INVALID_ARGUMENT, RESOURCE_EXHAUSTED  an option of the reducer is bad, or there is no memory,
//                                         on any rank: all ranks return it (IsAgreed)
//   other                                 a collective call failed, or the device
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(collectives::Communicator& communicator,
                                                       const Model& model,
                                                       const Reduction& reduction,
                                                       const OptimizerSpec& optimizer, Slots slots,
                                                       const StrategyOptions& options);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_STRATEGY_H_
