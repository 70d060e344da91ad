#include "trainer/loop/device_parts.h"

#include <utility>

#include "base/status.h"
#include "collectives/device_communicator.h"
#include "collectives/nccl_communicator.h"

namespace millrace::trainer {

absl::StatusOr<std::unique_ptr<collectives::Communicator>> ConnectDevices(
    collectives::Communicator& ranks, const cuda::Device& device, int ordinal) {
  std::unique_ptr<collectives::Communicator> group;
  if (ranks.size() == 1) {
    MILLRACE_ASSIGN_OR_RETURN(group, collectives::MakeSingleOnDevice(ordinal, device.stream()));
    return group;
  }
  collectives::NcclOptions options;
  options.device = ordinal;
  options.gradient_stream = device.stream();
  MILLRACE_ASSIGN_OR_RETURN(group, collectives::MakeNccl(ranks, options));
  return group;
}

absl::StatusOr<std::unique_ptr<pipeline::DeviceFeed>> OpenFeed(
    std::unique_ptr<pipeline::Pipeline> pipeline, int ordinal) {
  return pipeline::DeviceFeed::Open(std::move(pipeline), {.device = ordinal, .keeps_host = true});
}

}  // namespace millrace::trainer
