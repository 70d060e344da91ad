#include "collectives/gradient_reducer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/nccl/on_device.h"
#include "collectives/nccl_communicator.h"
#include "collectives/reducer/bucket_plan.h"
#include "collectives/reducer/device_memory.h"
#include "collectives/reducer/foreign_memory.h"
#include "collectives/reducer/host_links.h"
#include "collectives/reducer/planned_reducer.h"
#include "collectives/reducer/slot_engine.h"
#include "collectives/reducer/stream_engine.h"

namespace millrace::collectives {
namespace {

absl::Status CheckPlace(const Communicator& communicator, bool device,
                        const ReducerOptions& options) {
  if (device) return CheckDeviceOptions(options);
  const bool over_nccl = communicator.backend() == "nccl";
  if (options.policy != ProgressPolicy::kStream && !over_nccl) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("policy stream sums gradients in a device's memory, over a communicator of "
                   "MakeNccl: this one is over ",
                   ToAbsl(communicator.backend()), over_nccl ? ", but not MakeNccl's" : ""));
}

// A board of its own: a device's ranks share no memory of the host.
absl::StatusOr<HostLinks> ConnectDevice(Communicator& beside) {
  HostLinks links;
  links.groups = GroupByIdentity({0});
  links.host = SharedHost::MakePrivate(1);
  MILLRACE_RETURN_IF_ERROR(nccl::AgreeOnOutcome(
      beside,
      links.host != nullptr ? absl::OkStatus() : absl::ResourceExhaustedError("no memory")));
  return links;
}

// Whose memory the gradients are in, and what else of it the ranks have to agree on.
std::string DescribeMemory(bool device, bool foreign, const ReducerOptions& options) {
  return absl::StrCat(foreign ? "the caller's" : "the reducer's",
                      device && options.team != nullptr ? ", in a team" : "");
}

absl::StatusOr<std::unique_ptr<GradientReducer>> MakePlanned(
    Communicator& communicator, std::vector<GradientSpec> gradients,
    const std::optional<std::vector<TensorView>>& memory, const ReducerOptions& options) {
  const bool foreign = memory.has_value();
  auto* const nccl = dynamic_cast<NcclCommunicator*>(&communicator);
  const bool device = nccl != nullptr;
  const std::string encoded =
      EncodePlanInputs(gradients, options, DescribeMemory(device, foreign, options));
  const int num_shares = device && SumsByShares(options) ? communicator.size() : 1;
  absl::StatusOr<BucketPlan> plan = MakeBucketPlan(gradients, options, num_shares);
  absl::Status good = plan.status();
  if (good.ok()) good = CheckPlace(communicator, device, options);
  if (good.ok() && foreign) good = CheckForeignMemory(gradients, *memory);
  if (device) nccl->bootstrap().set_limits(communicator.limits());
  Communicator& in_host_memory = device ? nccl->bootstrap() : communicator;
  MILLRACE_RETURN_IF_ERROR(AgreeOnPlan(in_host_memory, good, encoded));
  const auto bytes = [&](const HostGroups& groups) {
    const bool slots = foreign && groups.num_hosts() == 1;
    return slots ? SlotEngine::CopyBytes(groups.largest()) : plan->total_bytes;
  };
  absl::StatusOr<HostLinks> links =
      device ? ConnectDevice(in_host_memory) : ConnectHosts(communicator, bytes, options);
  MILLRACE_RETURN_IF_ERROR(links.status());
  std::unique_ptr<DeviceMemory> place;
  if (device) {
    MILLRACE_ASSIGN_OR_RETURN(place, DeviceMemory::Make(*nccl, *plan, options, foreign));
  }
  auto made = std::make_unique<PlannedReducer>(
      std::move(gradients), *std::move(plan), HashPlanInputs(encoded), options, *std::move(links),
      communicator.rank(), memory, std::move(place), communicator.timeout());
  MILLRACE_RETURN_IF_ERROR(made->Connect());
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientReducer>> GradientReducer::Make(
    Communicator& communicator, std::vector<GradientSpec> gradients,
    const ReducerOptions& options) {
  return MakePlanned(communicator, std::move(gradients), std::nullopt, options);
}

absl::StatusOr<std::unique_ptr<GradientReducer>> GradientReducer::Make(
    Communicator& communicator, std::vector<GradientSpec> gradients, std::vector<TensorView> memory,
    const ReducerOptions& options) {
  return MakePlanned(communicator, std::move(gradients), memory, options);
}

}  // namespace millrace::collectives
