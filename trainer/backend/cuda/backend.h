#ifndef MILLRACE_TRAINER_BACKEND_CUDA_BACKEND_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/network_options.h"
#include "trainer/backend/cuda/tensors.h"

namespace millrace::trainer::cuda {

// Makes a backend of `model` on a device. The device and the tensors' memory outlive it; without
// gradients it trains nothing.
//   INVALID_ARGUMENT    the tensors do not fit the model
//   UNIMPLEMENTED       an option that devices do not have
absl::StatusOr<std::unique_ptr<Backend>> MakeDeviceBackend(Device& device, const Model& model,
                                                           const DeviceTensors& tensors,
                                                           const BackendOptions& options,
                                                           const NetworkOptions& more = {});

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_BACKEND_H_
