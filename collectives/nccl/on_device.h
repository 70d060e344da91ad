#ifndef MILLRACE_COLLECTIVES_NCCL_ON_DEVICE_H_
#define MILLRACE_COLLECTIVES_NCCL_ON_DEVICE_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/cuda/queue.h"
#include "collectives/nccl/session.h"
#include "collectives/nccl_communicator.h"

namespace millrace::collectives::nccl {

using MakeQueue = std::function<absl::StatusOr<std::unique_ptr<DeviceQueue>>()>;

// MakeNccl on the device of the queue that `make_queue` returns.
absl::StatusOr<std::unique_ptr<NcclCommunicator>> MakeNcclOn(Communicator& bootstrap,
                                                             const NcclOptions& options,
                                                             const MakeQueue& make_queue);

// The configuration of a non-blocking communicator.
Config MakeConfig(const NcclOptions& options);

// The communicator of a connected session. `side` is the same group over another network.
std::unique_ptr<NcclCommunicator> MakeCommunicator(std::shared_ptr<Session> session,
                                                   std::unique_ptr<Communicator> side,
                                                   const NcclOptions& options);

// Checks that the ranks of `side` are about to make the same call with good arguments. The outcome
// is the same on every rank: OK, or INVALID_ARGUMENT naming ranks and calls. Collective.
absl::Status AgreeOnCall(Communicator& side, const Request& request, const absl::Status& arguments);

// The same for one message, between its two ranks.
absl::Status AgreeOnMessage(Communicator& side, const Request& request);

// OK if `own` is OK on all ranks of `side`; else, on every rank, the error of the lowest rank that
// has one, with the rank's name. UNAVAILABLE only if no rank has another error. Collective.
absl::Status AgreeOnOutcome(Communicator& side, const absl::Status& own);

}  // namespace millrace::collectives::nccl

#endif  // MILLRACE_COLLECTIVES_NCCL_ON_DEVICE_H_
