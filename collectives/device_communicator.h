#ifndef MILLRACE_COLLECTIVES_DEVICE_COMMUNICATOR_H_
#define MILLRACE_COLLECTIVES_DEVICE_COMMUNICATOR_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

class DeviceQueue;

// A communicator whose tensors are in a device's memory. Its calls are put on a stream of the
// device, which runs them beside the host; Poll and Wait ask the device.
class DeviceCommunicator : public Communicator {
 public:
  DeviceCommunicator* on_device() final { return this; }

  // The same ranks over another network, for data in the host's memory. Its operations are among
  // those of this communicator, so it is called by the communicator's thread.
  virtual Communicator& bootstrap() = 0;

  // Device memory whose data moves without copies where the hardware can; every rank allocates the
  // same sizes in the same order. Lives as long as the communicator.
  //   UNIMPLEMENTED                              this library cannot allocate (NCCL before 2.19)
  //   RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE  as the library says
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // The same for memory of the caller's, which outlives the communicator.
  virtual absl::Status Register(void* memory, size_t bytes) = 0;

  // Copies between memory of the host and of this rank's device, in either direction, after the
  // calls that have begun. Blocks without a deadline, so wait for these calls first. INTERNAL: the
  // driver's error.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;

  // The stream on which gradients are written for a reducer (NcclOptions::gradient_stream); null:
  // gradients have no stream of their own.
  virtual void* gradient_stream() const = 0;

  // The queue on which the calls run; lives as long as the communicator. Only for this library.
  virtual DeviceQueue& queue() = 0;
};

// A group of one rank, on CUDA device `device`. Needs no NCCL: a rank that is alone sums nothing,
// so calls are copies at most, on a stream of the group's own. `gradient_stream`: as NcclOptions'.
//   UNIMPLEMENTED        this build has no CUDA parts
//   FAILED_PRECONDITION  the driver or a device is missing
//   INVALID_ARGUMENT     no device of that number
//   other                CUDA's error
absl::StatusOr<std::unique_ptr<DeviceCommunicator>> MakeSingleOnDevice(int device,
                                                                       void* gradient_stream);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_DEVICE_COMMUNICATOR_H_
