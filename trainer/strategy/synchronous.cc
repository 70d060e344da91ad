#include "trainer/strategy/synchronous.h"

#include <utility>

#include "base/status.h"
#include "trainer/strategy/reducer_options.h"

namespace millrace::trainer {

SynchronousStrategy::SynchronousStrategy(const Model& model,
                                         std::unique_ptr<collectives::GradientReducer> reducer,
                                         std::unique_ptr<WeightUpdate> update)
    : model_(model), reducer_(std::move(reducer)), update_(std::move(update)) {}

std::vector<std::span<float>> SynchronousStrategy::gradients() {
  std::vector<std::span<float>> spans;
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    spans.push_back(reducer_->gradient(ReducerIndex(model_, i)).as<float>());
  }
  return spans;
}

void SynchronousStrategy::SetRows(int64_t rows) { reducer_->SetRows(rows); }

absl::Status SynchronousStrategy::MarkReady(size_t i) {
  return reducer_->MarkReady(ReducerIndex(model_, i));
}

absl::Status SynchronousStrategy::Finish() {
  MILLRACE_RETURN_IF_ERROR(reducer_->Finish());
  is_finished_ = true;
  return absl::OkStatus();
}

void SynchronousStrategy::Leave(const absl::Status& why) { reducer_->Leave(why); }

absl::StatusOr<collectives::StepOutcome> SynchronousStrategy::Apply(size_t /*i*/,
                                                                    const UpdateStep& update,
                                                                    TensorSet& weights) {
  const collectives::StepOutcome outcome = reducer_->outcome();
  if (!outcome.skip) MILLRACE_RETURN_IF_ERROR(update_->Apply(*reducer_, update, weights));
  return outcome;
}

}  // namespace millrace::trainer
