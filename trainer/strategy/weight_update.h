#ifndef MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
#define MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/gradient_reducer.h"
#include "trainer/backend/cuda/parameter_store.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/optimizer.h"

namespace millrace::trainer {

// Applies the optimizer to a reducer's sums, bucket by bucket, and reports the current bucket to
// the progress. Weights are those of its caller, in the host's memory, or its own, in a device's
// (store); then the sums are in that device's memory too. Thread-compatible.
//
// Each call may return the device's error.
class WeightUpdate {
 public:
  virtual ~WeightUpdate() = default;

  // Makes `update` of the optimizer's pieces of the weights, by `sums`. Collective if the pieces
  // are those of this rank alone. May leave a device at work.
  virtual absl::Status Apply(collectives::GradientReducer& sums, const UpdateStep& update,
                             TensorSet& weights) = 0;

  // The names of the optimizer's slots.
  virtual std::vector<std::string> slot_names() const = 0;
  // The optimizer's state, which lives until the next call. REQUIRES: pieces are whole parameters.
  virtual absl::StatusOr<const Slots*> FetchSlots() = 0;

  // The next four are for shards, which go through the memory of the gradients.

  // Copies the pieces of the weights, or those of slot `s`, to the memory of their gradients.
  virtual absl::Status PutWeights(const TensorSet& weights,
                                  collectives::GradientReducer& gradients) = 0;
  virtual absl::Status PutSlot(size_t s, collectives::GradientReducer& gradients) = 0;
  // Copies the memory of all gradients to the weights.
  virtual absl::Status TakeWeights(collectives::GradientReducer& gradients, TensorSet& weights) = 0;
  // The contents of the memory of all gradients.
  virtual absl::StatusOr<TensorSet> TakeTensors(collectives::GradientReducer& gradients) = 0;

  // The device's tensors; null: they are the host's.
  virtual cuda::ParameterStore* store() { return nullptr; }
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
