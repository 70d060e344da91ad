#include "trainer/ranks/step_sums.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/tensor.h"
#include "collectives/peer_lost.h"
#include "trainer/ranks/waiting.h"

namespace millrace::trainer {

using collectives::Communicator;
using collectives::Phase;

absl::StatusOr<std::unique_ptr<StepSums>> StepSums::Make(Communicator& communicator,
                                                         collectives::Progress& progress) {
  MILLRACE_ASSIGN_OR_RETURN(auto group, communicator.Split(0, communicator.rank()));
  return std::unique_ptr<StepSums>(new StepSums(std::move(group), progress));
}

// The ranks have compared their models, so they need not compare these calls.
absl::Status StepSums::Add(uint64_t step, std::span<double> values) {
  step_ = static_cast<int64_t>(step);
  const TensorView view = {values.data(), DType::kF64, Shape{static_cast<int64_t>(values.size())}};
  const Waiting waiting(&progress_, step_, Phase::kBackward);
  const auto begin = std::chrono::steady_clock::now();
  absl::Status status = group_->Run({.kind = collectives::Collective::kAllReduce,
                                     .in = view,
                                     .out = view,
                                     .op = collectives::ReduceOp::kSum,
                                     .agreed = true});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  seconds_ += took.count();
  return status;
}

void StepSums::Leave(int64_t step, const absl::Status& why) {
  if (collectives::PeerLostOf(why) || absl::IsCancelled(why)) return group_->Leave(why);
  const Phase phase = step == step_ ? Phase::kBackward : Phase::kUpdating;
  const collectives::PeerLost place = {group_->rank(), step, -1, phase};
  group_->Leave(collectives::PeerLostError(
      place,
      absl::StrCat("it has failed: ", why.ToString(absl::StatusToStringMode::kWithNoExtraData))));
}

}  // namespace millrace::trainer
