#ifndef MILLRACE_TRAINER_LOOP_DEVICE_PARTS_H_
#define MILLRACE_TRAINER_LOOP_DEVICE_PARTS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "pipeline/device_feed.h"
#include "pipeline/pipeline.h"
#include "trainer/backend/cuda/device.h"

namespace millrace::trainer {

// The ranks as a group whose tensors are in memory of their devices, `device` being that of this
// rank, number `ordinal` of its host. Several ranks take NCCL, and the group keeps one that is
// split from `ranks`; a rank that is alone needs none. Collective. Outcomes are
// collectives::MakeNccl's, or MakeSingleOnDevice's.
absl::StatusOr<std::unique_ptr<collectives::Communicator>> ConnectDevices(
    collectives::Communicator& ranks, const cuda::Device& device, int ordinal);

// A feed of `pipeline`'s batches to device `ordinal`, which keeps them in the host's memory too.
// Outcomes are pipeline::DeviceFeed::Open's.
absl::StatusOr<std::unique_ptr<pipeline::DeviceFeed>> OpenFeed(
    std::unique_ptr<pipeline::Pipeline> pipeline, int ordinal);

// The parts of a training on devices that can be replaced.
struct DeviceParts {
  std::function<absl::StatusOr<std::unique_ptr<cuda::Device>>(int ordinal)> open =
      cuda::MakeCudaDevice;
  // Null is a group of ranks that themselves reach memory of devices.
  std::function<absl::StatusOr<std::unique_ptr<collectives::Communicator>>(
      collectives::Communicator& ranks, const cuda::Device& device, int ordinal)>
      connect = ConnectDevices;
  std::function<absl::StatusOr<std::unique_ptr<pipeline::DeviceFeed>>(
      std::unique_ptr<pipeline::Pipeline> pipeline, int ordinal)>
      feed = OpenFeed;            // empty: batches stay in the host's memory
  std::string plans_folder = {};  // of plans that were chosen; empty: readers::CacheFolder's
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_DEVICE_PARTS_H_
