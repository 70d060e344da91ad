#ifndef MILLRACE_TRAINER_STRATEGY_STALE_H_
#define MILLRACE_TRAINER_STRATEGY_STALE_H_

#include <memory>
#include <string>
#include <vector>

#include "collectives/stale_reducer.h"
#include "trainer/strategy/strategy.h"
#include "trainer/strategy/weight_update.h"

namespace millrace::trainer {

// Sums come some steps late, so that no step waits for its own. Every step under way has buckets of
// its own, but the compute library needs a fixed place for gradients: each is copied once.
class StaleStrategy final : public Strategy {
 public:
  // `model` must outlive it; `update` is of whole parameters.
  StaleStrategy(const Model& model, std::unique_ptr<collectives::StaleReducer> reducer,
                std::unique_ptr<WeightUpdate> update);

  std::vector<std::span<float>> gradients() override;
  void SetRows(int64_t rows) override;
  absl::Status MarkReady(size_t i) override;
  absl::Status Finish() override;
  void Leave(const absl::Status& why) override;
  size_t num_ready() const override { return reducer_->ready().size(); }
  absl::StatusOr<collectives::StepOutcome> Apply(size_t i, const UpdateStep& update,
                                                 TensorSet& weights) override;
  absl::StatusOr<const Slots*> GatherSlots() override { return update_->FetchSlots(); }
  bool has_whole_slots() const override { return true; }
  std::string Summary() const override { return reducer_->Summary(); }
  collectives::ReducerCounters counters() const override;
  cuda::ParameterStore* store() override { return update_->store(); }

 private:
  // The memory to which backward writes the gradient of parameter `i`.
  std::span<float> GradientOf(size_t i);

  const Model& model_;
  const std::unique_ptr<collectives::StaleReducer> reducer_;
  const std::unique_ptr<WeightUpdate> update_;
  TensorSet gradients_;  // the memory to which backward writes, unless it is a device's
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_STALE_H_
