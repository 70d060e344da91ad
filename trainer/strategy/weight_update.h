#ifndef MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
#define MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/optimizer.h"

namespace millrace::trainer {

// Applies the optimizer to a reducer's sums, bucket by bucket, and reports the current bucket to
// the progress. Thread-compatible.
class WeightUpdate {
 public:
  // `model` and `progress` (null: none) must outlive it. If the optimizer's pieces are those of
  // this rank alone, `communicator` is the one of all ranks, and outlives it; null: whole
  // parameters.
  WeightUpdate(const Model& model, Optimizer optimizer, collectives::Progress* progress,
               collectives::Communicator* communicator)
      : model_(&model),
        optimizer_(std::move(optimizer)),
        progress_(progress),
        communicator_(communicator) {}

  // Makes `update` of the optimizer's pieces of `weights`, by `sums`. Collective if there is a
  // communicator.
  absl::Status Apply(collectives::GradientReducer& sums, const UpdateStep& update,
                     TensorSet& weights);

  const std::vector<Piece>& pieces() const { return optimizer_.pieces(); }
  // The optimizer's state, by piece.
  const Slots& slots() const { return optimizer_.slots(); }

 private:
  // The sums of piece `p`, and its weights.
  std::span<const float> SumsOf(collectives::GradientReducer& sums, size_t p) const;
  std::span<float> WeightsOf(TensorSet& weights, size_t p) const;
  absl::Status FindNorms(collectives::GradientReducer& sums, int64_t step, TensorSet& weights);

  const Model* model_;
  Optimizer optimizer_;
  collectives::Progress* progress_;
  collectives::Communicator* communicator_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
