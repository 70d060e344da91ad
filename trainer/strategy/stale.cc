#include "trainer/strategy/stale.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/strategy/reducer_options.h"

namespace millrace::trainer {

StaleStrategy::StaleStrategy(const Model& model, std::unique_ptr<collectives::StaleReducer> reducer,
                             std::unique_ptr<WeightUpdate> update)
    : model_(model),
      reducer_(std::move(reducer)),
      update_(std::move(update)),
      gradients_(update_->store() == nullptr ? MakeZeros(model) : TensorSet()) {}

std::span<float> StaleStrategy::GradientOf(size_t i) {
  if (update_->store() == nullptr) return gradients_[i];
  return {update_->store()->tensors().parameters[i].gradient,
          static_cast<size_t>(model_.parameters[i].shape.num_elements())};
}

std::vector<std::span<float>> StaleStrategy::gradients() {
  std::vector<std::span<float>> spans;
  for (size_t i = 0; i < model_.parameters.size(); ++i) spans.push_back(GradientOf(i));
  return spans;
}

void StaleStrategy::SetRows(int64_t rows) { reducer_->SetRows(rows); }

absl::Status StaleStrategy::MarkReady(size_t i) {
  const size_t index = ReducerIndex(model_, i);
  const std::span<const float> from = GradientOf(i);
  const std::span<float> to = reducer_->gradient(index).as<float>();
  if (cuda::ParameterStore* const on_device = store(); on_device != nullptr) {
    const absl::Status copied = on_device->device().Copy(to.data(), from.data(), from.size_bytes());
    MILLRACE_RETURN_IF_ERROR(
        Annotate(copied, absl::StrCat("gradient of ", model_.parameters[i].name)));
  } else {
    std::ranges::copy(from, to.begin());
  }
  return reducer_->MarkReady(index);
}

absl::Status StaleStrategy::Finish() { return reducer_->Finish(); }

void StaleStrategy::Leave(const absl::Status& why) { reducer_->Leave(why); }

absl::StatusOr<collectives::StepOutcome> StaleStrategy::Apply(size_t i, const UpdateStep& update,
                                                              TensorSet& weights) {
  collectives::GradientReducer& sums = *reducer_->ready()[i];
  const collectives::StepOutcome outcome = sums.outcome();
  if (!outcome.skip) MILLRACE_RETURN_IF_ERROR(update_->Apply(sums, update, weights));
  return outcome;
}

collectives::ReducerCounters StaleStrategy::counters() const { return reducer_->counters(); }

}  // namespace millrace::trainer
