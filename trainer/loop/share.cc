#include "trainer/loop/share.h"

#include "base/status.h"
#include "trainer/ranks/agree.h"

namespace millrace::trainer {

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
  return BroadcastText(communicator, state.resume_token);
}

}  // namespace millrace::trainer
