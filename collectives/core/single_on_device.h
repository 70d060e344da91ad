#ifndef MILLRACE_COLLECTIVES_CORE_SINGLE_ON_DEVICE_H_
#define MILLRACE_COLLECTIVES_CORE_SINGLE_ON_DEVICE_H_

#include <memory>

#include "collectives/communicator.h"
#include "collectives/cuda/queue.h"
#include "collectives/device_communicator.h"

namespace millrace::collectives {

// MakeSingleOnDevice on the device of `queue`; `bootstrap` is a group of one.
std::unique_ptr<DeviceCommunicator> MakeSingleOn(std::unique_ptr<DeviceQueue> queue,
                                                 std::unique_ptr<Communicator> bootstrap,
                                                 void* gradient_stream);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CORE_SINGLE_ON_DEVICE_H_
