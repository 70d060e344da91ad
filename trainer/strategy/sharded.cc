#include "trainer/strategy/sharded.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"

namespace millrace::trainer {

ShardedStrategy::ShardedStrategy(collectives::Communicator& communicator, const Model& model,
                                 std::unique_ptr<collectives::GradientReducer> reducer,
                                 std::unique_ptr<WeightUpdate> update,
                                 collectives::Progress* progress)
    : SynchronousStrategy(model, std::move(reducer), std::move(update)),
      communicator_(communicator),
      progress_(progress) {}

void ShardedStrategy::SetRows(int64_t rows) {
  gathered_.clear();
  SynchronousStrategy::SetRows(rows);
}

absl::StatusOr<collectives::StepOutcome> ShardedStrategy::Apply(size_t i, const UpdateStep& update,
                                                                TensorSet& weights) {
  MILLRACE_ASSIGN_OR_RETURN(const collectives::StepOutcome outcome,
                            SynchronousStrategy::Apply(i, update, weights));
  if (!outcome.skip) MILLRACE_RETURN_IF_ERROR(GatherWeights(update.step, weights));
  return outcome;
}

absl::Status ShardedStrategy::GatherWeights(int64_t step, TensorSet& weights) {
  MILLRACE_RETURN_IF_ERROR(update_->PutWeights(weights, *reducer_));
  const double gathered_before = reducer_->counters().gather_seconds;
  {
    const Waiting waiting(progress_, step);
    MILLRACE_RETURN_IF_ERROR(reducer_->GatherShards());
  }
  gather_seconds_ += reducer_->counters().gather_seconds - gathered_before;
  return update_->TakeWeights(*reducer_, weights);
}

// Other ranks write to this rank's copy of the buckets as soon as they gather, so all ranks must be
// done with their copies before: they wait for each other in AgreeOnStatus.
absl::StatusOr<TensorSet> ShardedStrategy::GatherSlot(size_t s) {
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, absl::OkStatus()));
  MILLRACE_RETURN_IF_ERROR(update_->PutSlot(s, *reducer_));
  MILLRACE_RETURN_IF_ERROR(reducer_->GatherShards());
  if (communicator_.rank() != 0) return TensorSet();
  return update_->TakeTensors(*reducer_);
}

absl::StatusOr<const Slots*> ShardedStrategy::GatherSlots() {
  gathered_.clear();
  const std::vector<std::string> names = update_->slot_names();
  for (size_t s = 0; s < names.size(); ++s) {
    MILLRACE_ASSIGN_OR_RETURN(TensorSet whole, GatherSlot(s));
    gathered_.push_back({names[s], std::move(whole)});
  }
  return &gathered_;
}

collectives::ReducerCounters ShardedStrategy::counters() const {
  collectives::ReducerCounters counters = reducer_->counters();
  counters.gather_seconds = gather_seconds_;
  return counters;
}

}  // namespace millrace::trainer
