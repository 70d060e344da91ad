#include "trainer/strategy/sharded.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/status.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"

namespace millrace::trainer {

ShardedStrategy::ShardedStrategy(collectives::Communicator& communicator, const Model& model,
                                 std::unique_ptr<collectives::GradientReducer> reducer,
                                 WeightUpdate update, collectives::Progress* progress)
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
  for (const Piece& piece : update_.pieces()) {
    const auto own = std::span(weights[piece.parameter]).subspan(piece.begin, piece.size());
    std::ranges::copy(own, GradientOf(piece.parameter).subspan(piece.begin).begin());
  }
  const double gathered_before = reducer_->counters().gather_seconds;
  {
    const Waiting waiting(progress_, step);
    MILLRACE_RETURN_IF_ERROR(reducer_->GatherShards());
  }
  gather_seconds_ += reducer_->counters().gather_seconds - gathered_before;
  for (size_t i = 0; i < weights.size(); ++i) {
    std::ranges::copy(GradientOf(i), weights[i].begin());
  }
  return absl::OkStatus();
}

// Other ranks write to this rank's copy of the buckets as soon as they gather, so all ranks must be
// done with their copies before: they wait for each other in AgreeOnStatus.
absl::StatusOr<TensorSet> ShardedStrategy::GatherSlot(size_t s) {
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, absl::OkStatus()));
  for (size_t p = 0; p < update_.pieces().size(); ++p) {
    const Piece& piece = update_.pieces()[p];
    std::ranges::copy(update_.slots()[s].tensors[p],
                      GradientOf(piece.parameter).subspan(piece.begin).begin());
  }
  MILLRACE_RETURN_IF_ERROR(reducer_->GatherShards());
  TensorSet whole;
  for (size_t i = 0; communicator_.rank() == 0 && i < model_.parameters.size(); ++i) {
    const std::span<float> gathered = GradientOf(i);
    whole.emplace_back(gathered.begin(), gathered.end());
  }
  return whole;
}

absl::StatusOr<const Slots*> ShardedStrategy::GatherSlots() {
  gathered_.clear();
  for (size_t s = 0; s < update_.slots().size(); ++s) {
    MILLRACE_ASSIGN_OR_RETURN(TensorSet whole, GatherSlot(s));
    gathered_.push_back({update_.slots()[s].name, std::move(whole)});
  }
  return &gathered_;
}

collectives::ReducerCounters ShardedStrategy::counters() const {
  collectives::ReducerCounters counters = reducer_->counters();
  counters.gather_seconds = gather_seconds_;
  return counters;
}

}  // namespace millrace::trainer
