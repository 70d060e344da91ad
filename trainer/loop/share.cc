#include "trainer/loop/share.h"

#include <bit>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "trainer/ranks/agree.h"

namespace millrace::trainer {

namespace {

absl::Status ShareLossScale(collectives::Communicator& communicator,
                            std::optional<LossScale>& scale) {
  uint64_t numbers[3] = {};  // true if there is one, and its own two
  if (scale) {
    numbers[0] = 1;
    numbers[1] = std::bit_cast<uint64_t>(scale->scale);
    numbers[2] = scale->good_steps;
  }
  MILLRACE_RETURN_IF_ERROR(communicator.Broadcast({numbers, DType::kI64, Shape{3}}, 0));
  scale.reset();
  if (numbers[0] != 0) scale = LossScale{std::bit_cast<double>(numbers[1]), numbers[2]};
  return absl::OkStatus();
}

}  // namespace

absl::Status ShareState(collectives::Communicator& communicator, TrainState& state) {
  uint64_t* const numbers[] = {&state.step,
                               &state.updates,
                               &state.epoch,
                               &state.plan_fingerprint,
                               &state.data_fingerprint,
                               &state.global_batch};
  for (uint64_t* const number : numbers) {
    MILLRACE_RETURN_IF_ERROR(communicator.Broadcast({number, DType::kI64, Shape{1}}, 0));
  }
  MILLRACE_RETURN_IF_ERROR(ShareLossScale(communicator, state.loss_scale));
  return BroadcastText(communicator, state.resume_token);
}

}  // namespace millrace::trainer
