#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_DEVICE_MODEL_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_DEVICE_MODEL_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/tensors.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer::cuda {

// A model's tensors in a device's memory, each by itself.
class DeviceModel {
 public:
  // `compute`: the type of products. The device and the model outlive it.
  DeviceModel(Device& device, const Model& model, DType compute);

  // Writes all weights, and their copies.
  absl::Status SetWeights(const TensorSet& weights);
  absl::Status SetBuffers(const TensorSet& buffers);
  absl::StatusOr<TensorSet> Gradients() const;
  const DeviceTensors& tensors() const { return tensors_; }
  // Of Allocate, in the constructor.
  const absl::Status& status() const { return status_; }

 private:
  void* Take(size_t bytes);

  Device& device_;
  const Model& model_;
  const DType compute_;
  absl::Status status_;
  std::vector<Memory> memory_;
  DeviceTensors tensors_;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_DEVICE_MODEL_H_
