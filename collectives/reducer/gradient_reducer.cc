#include "collectives/gradient_reducer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/device_communicator.h"
#include "collectives/reducer/bucket_plan.h"
#include "collectives/reducer/device_memory.h"
#include "collectives/reducer/host_links.h"
#include "collectives/reducer/make_reducer.h"
#include "collectives/reducer/planned_reducer.h"
#include "collectives/reducer/slot_engine.h"
#include "collectives/reducer/stream_engine.h"
#include "collectives/reducer/user_buffers.h"

namespace millrace::collectives {
namespace {

absl::Status CheckPlace(const Communicator& communicator, bool device,
                        const ReducerOptions& options) {
  if (device) return CheckDeviceOptions(options);
  if (options.policy != ProgressPolicy::kStream) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("policy stream sums gradients in a device's memory, over a communicator of "
                   "MakeNccl: this one is over ",
                   ToAbsl(communicator.backend())));
}

// Whose memory the gradients are in, and what else of it the ranks have to agree on.
std::string DescribeMemory(bool device, bool in_user_buffers, const ReducerOptions& options) {
  return absl::StrCat(in_user_buffers ? "the caller's" : "the reducer's",
                      device && options.team != nullptr ? ", in a team" : "");
}

absl::StatusOr<std::unique_ptr<GradientReducer>> MakeWith(
    Communicator& communicator, std::vector<GradientSpec> gradients,
    const std::optional<std::vector<TensorView>>& memory, const PrivateReducerOptions& options) {
  const bool in_user_buffers = memory.has_value();
  DeviceCommunicator* const on_device = communicator.on_device();
  const bool device = on_device != nullptr;
  const std::string encoded =
      EncodePlanInputs(gradients, options, DescribeMemory(device, in_user_buffers, options));
  const int num_shares = device && SumsByShares(options) ? communicator.size() : 1;
  absl::StatusOr<BucketPlan> plan = MakeBucketPlan(gradients, options, num_shares);
  absl::Status good = plan.status();
  if (good.ok()) good = CheckPlace(communicator, device, options);
  if (good.ok() && in_user_buffers) good = CheckUserBuffers(gradients, *memory);
  if (device) on_device->bootstrap().set_limits(communicator.limits());
  Communicator& in_host_memory = device ? on_device->bootstrap() : communicator;
  MILLRACE_RETURN_IF_ERROR(AgreeOnPlan(in_host_memory, good, encoded));
  std::unique_ptr<HostLinks> links;
  std::unique_ptr<DeviceMemory> place;
  if (device) {
    MILLRACE_ASSIGN_OR_RETURN(place,
                              DeviceMemory::Make(*on_device, *plan, options, in_user_buffers));
  } else {
    const auto bytes = [&](const HostGroups& groups) {
      const bool slots = in_user_buffers && groups.num_hosts() == 1;
      return slots ? SlotEngine::CopyBytes(groups.largest()) : plan->total_bytes;
    };
    MILLRACE_ASSIGN_OR_RETURN(HostLinks connected, ConnectHosts(communicator, bytes, options));
    links = std::make_unique<HostLinks>(std::move(connected));
  }
  auto made = std::make_unique<PlannedReducer>(
      std::move(gradients), *std::move(plan), HashPlanInputs(encoded), options, std::move(links),
      communicator.rank(), memory, std::move(place), communicator.timeout());
  MILLRACE_RETURN_IF_ERROR(made->Connect());
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientReducer>> MakePlanned(Communicator& communicator,
                                                             std::vector<GradientSpec> gradients,
                                                             const PrivateReducerOptions& options) {
  return MakeWith(communicator, std::move(gradients), std::nullopt, options);
}

absl::StatusOr<std::unique_ptr<GradientReducer>> MakePlanned(Communicator& communicator,
                                                             std::vector<GradientSpec> gradients,
                                                             std::vector<TensorView> memory,
                                                             const PrivateReducerOptions& options) {
  return MakeWith(communicator, std::move(gradients), std::move(memory), options);
}

absl::StatusOr<std::unique_ptr<GradientReducer>> GradientReducer::Make(
    Communicator& communicator, std::vector<GradientSpec> gradients,
    const ReducerOptions& options) {
  return MakePlanned(communicator, std::move(gradients), options);
}

absl::StatusOr<std::unique_ptr<GradientReducer>> GradientReducer::Make(
    Communicator& communicator, std::vector<GradientSpec> gradients, std::vector<TensorView> memory,
    const ReducerOptions& options) {
  return MakePlanned(communicator, std::move(gradients), std::move(memory), options);
}

}  // namespace millrace::collectives
