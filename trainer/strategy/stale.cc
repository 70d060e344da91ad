#include "trainer/strategy/stale.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "trainer/strategy/reducer_options.h"

namespace millrace::trainer {

StaleStrategy::StaleStrategy(const Model& model, std::unique_ptr<collectives::StaleReducer> reducer,
                             WeightUpdate update)
    : model_(model),
      reducer_(std::move(reducer)),
      update_(std::move(update)),
      gradients_(MakeZeros(model)) {}

std::vector<std::span<float>> StaleStrategy::gradients() {
  return {gradients_.begin(), gradients_.end()};
}

void StaleStrategy::SetRows(int64_t rows) { reducer_->SetRows(rows); }

absl::Status StaleStrategy::MarkReady(size_t i) {
  const size_t index = ReducerIndex(model_, i);
  std::ranges::copy(gradients_[i], reducer_->gradient(index).as<float>().begin());
  return reducer_->MarkReady(index);
}

absl::Status StaleStrategy::Finish() { return reducer_->Finish(); }

void StaleStrategy::Leave(const absl::Status& why) { reducer_->Leave(why); }

absl::StatusOr<collectives::StepOutcome> StaleStrategy::Apply(size_t i, const UpdateStep& update,
                                                              TensorSet& weights) {
  collectives::GradientReducer& sums = *reducer_->ready()[i];
  const collectives::StepOutcome outcome = sums.outcome();
  if (!outcome.skip) MILLRACE_RETURN_IF_ERROR(update_.Apply(sums, update, weights));
  return outcome;
}

collectives::ReducerCounters StaleStrategy::counters() const { return reducer_->counters(); }

}  // namespace millrace::trainer
