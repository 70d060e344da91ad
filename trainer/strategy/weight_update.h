#ifndef MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
#define MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "trainer/job/job.pb.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/sgd.h"

namespace millrace::trainer {

// Applies the optimizer to a reducer's sums, bucket by bucket, and reports the current bucket to
// the progress. Thread-compatible.
class WeightUpdate {
 public:
  // Updates only `pieces`. `velocity` is of all parameters; `model` and `progress` (null: none)
  // must outlive it. Collective: if the options of the optimizer are bad on one rank, all ranks
  // return that error (IsAgreed).
  static absl::StatusOr<WeightUpdate> Make(collectives::Communicator& communicator,
                                           const Model& model, const Optimizer& optimizer,
                                           TensorSet velocity, std::vector<Piece> pieces,
                                           collectives::Progress* progress);

  // Updates the pieces of `weights` by the sums of step `step`.
  void Apply(collectives::GradientReducer& sums, int64_t step, double rate, TensorSet& weights);

  const std::vector<Piece>& pieces() const { return sgd_.pieces(); }
  // The momentum, by piece.
  const TensorSet& velocity() const { return sgd_.velocity(); }

 private:
  WeightUpdate(const Model& model, Sgd sgd, collectives::Progress* progress)
      : model_(&model), sgd_(std::move(sgd)), progress_(progress) {}

  const Model* model_;
  Sgd sgd_;
  collectives::Progress* progress_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_WEIGHT_UPDATE_H_
