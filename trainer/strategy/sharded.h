#ifndef MILLRACE_TRAINER_STRATEGY_SHARDED_H_
#define MILLRACE_TRAINER_STRATEGY_SHARDED_H_

#include <memory>

#include "collectives/communicator.h"
#include "collectives/progress.h"
#include "trainer/strategy/synchronous.h"

namespace millrace::trainer {

// Each rank updates only its shards of the weights, and has the optimizer's state of these alone
// (ZeRO-1). New weights are gathered through the buckets' memory. So is the state before it is
// saved: a checkpoint is whole, and any number of ranks can continue it.
class ShardedStrategy final : public SynchronousStrategy {
 public:
  // `communicator`, which is that of numbers of the host, `model` and `progress` (null: none) must
  // outlive it; `update` is of this rank's shards.
  ShardedStrategy(collectives::Communicator& communicator, const Model& model,
                  std::unique_ptr<collectives::GradientReducer> reducer,
                  std::unique_ptr<WeightUpdate> update, collectives::Progress* progress);

  void SetRows(int64_t rows) override;
  absl::StatusOr<collectives::StepOutcome> Apply(size_t i, const UpdateStep& update,
                                                 TensorSet& weights) override;
  absl::StatusOr<const Slots*> GatherSlots() override;
  bool has_whole_slots() const override { return false; }
  collectives::ReducerCounters counters() const override;

 private:
  // Gives all ranks the weights that each has updated.
  absl::Status GatherWeights(int64_t step, TensorSet& weights);
  // Returns the whole tensors of slot `s` on rank 0, nothing on other ranks.
  absl::StatusOr<TensorSet> GatherSlot(size_t s);

  collectives::Communicator& communicator_;
  collectives::Progress* const progress_;
  double gather_seconds_ = 0;  // time to gather new weights
  Slots gathered_;             // the state of all ranks, on rank 0 until the next step
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_SHARDED_H_
