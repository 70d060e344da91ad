#ifndef MILLRACE_TRAINER_BACKEND_CUDA_TENSORS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_TENSORS_H_

#include <span>
#include <vector>

#include "trainer/model/model.h"

namespace millrace::trainer::cuda {

// The places of a model's tensors in a device's memory. Weights of products lie as the device likes
// them (DeviceOrder), all others as the model says.
struct DeviceTensors {
  struct Parameter {
    float* master = nullptr;    // float32; read by norms and biases
    void* compute = nullptr;    // the same in the type of products; of weights of products alone
    float* gradient = nullptr;  // null: nothing is trained
  };
  std::vector<Parameter> parameters;  // in the model's order
  std::vector<float*> buffers;        // in the model's order
};

// The order of a parameter's elements on a device: weights of convolutions, transposed ones too,
// are [filters, height, width, channels] there, where the model has [filters, channels, height,
// width]. Others stay as they are. `from` and `to` have the elements of the whole parameter, or of
// some of its filters.
void ToDeviceOrder(const Parameter& parameter, std::span<const float> from, std::span<float> to);
void FromDeviceOrder(const Parameter& parameter, std::span<const float> from, std::span<float> to);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_TENSORS_H_
