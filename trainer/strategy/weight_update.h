#ifndef MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
#define MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_

#include <cstdint>
#include <utility>
#include <vector>

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
  // `model` and `progress` (null: none) must outlive it.
  WeightUpdate(const Model& model, Optimizer optimizer, collectives::Progress* progress)
      : model_(&model), optimizer_(std::move(optimizer)), progress_(progress) {}

  // Makes `update` of the optimizer's pieces of `weights`, by `sums`.
  void Apply(collectives::GradientReducer& sums, const UpdateStep& update, TensorSet& weights);

  const std::vector<Piece>& pieces() const { return optimizer_.pieces(); }
  // The optimizer's state, by piece.
  const Slots& slots() const { return optimizer_.slots(); }

 private:
  const Model* model_;
  Optimizer optimizer_;
  collectives::Progress* progress_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
