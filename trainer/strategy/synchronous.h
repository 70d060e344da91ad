#ifndef MILLRACE_TRAINER_STRATEGY_SYNCHRONOUS_H_
#define MILLRACE_TRAINER_STRATEGY_SYNCHRONOUS_H_

#include <memory>
#include <string>
#include <vector>

#include "collectives/gradient_reducer.h"
#include "trainer/strategy/strategy.h"
#include "trainer/strategy/weight_update.h"

namespace millrace::trainer {

// Every step waits for its own sums, and every rank updates all weights. Backward writes into the
// reducer's buckets, so gradients are not copied.
class SynchronousStrategy : public Strategy {
 public:
  // `model` must outlive it; `update` is of whole parameters.
  SynchronousStrategy(const Model& model, std::unique_ptr<collectives::GradientReducer> reducer,
                      std::unique_ptr<WeightUpdate> update);

  std::vector<std::span<float>> gradients() override;
  void SetRows(int64_t rows) override;
  absl::Status MarkReady(size_t i) override;
  absl::Status Finish() override;
  void Leave(const absl::Status& why) override;
  size_t num_ready() const override { return is_finished_ && reducer_->outcome().complete ? 1 : 0; }
  absl::StatusOr<collectives::StepOutcome> Apply(size_t i, const UpdateStep& update,
                                                 TensorSet& weights) override;
  absl::StatusOr<const Slots*> GatherSlots() override { return update_->FetchSlots(); }
  bool has_whole_slots() const override { return true; }
  std::string Summary() const override { return reducer_->Summary(); }
  collectives::ReducerCounters counters() const override { return reducer_->counters(); }
  cuda::ParameterStore* store() override { return update_->store(); }

 protected:
  const Model& model_;
  const std::unique_ptr<collectives::GradientReducer> reducer_;
  const std::unique_ptr<WeightUpdate> update_;

 private:
  bool is_finished_ = false;  // true if a batch has ended
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_SYNCHRONOUS_H_
