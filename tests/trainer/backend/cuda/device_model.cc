#include "tests/trainer/backend/cuda/device_model.h"

#include <utility>

#include "base/status.h"
#include "trainer/backend/cuda/host_values.h"

namespace millrace::trainer::cuda {
namespace {

size_t CountOf(const Shape& shape) { return static_cast<size_t>(shape.num_elements()); }

}  // namespace

DeviceModel::DeviceModel(Device& device, const Model& model, DType compute)
    : device_(device), model_(model), compute_(compute) {
  for (const Parameter& parameter : model.parameters) {
    const size_t count = CountOf(parameter.shape);
    DeviceTensors::Parameter tensor;
    tensor.master = static_cast<float*>(Take(count * sizeof(float)));
    tensor.gradient = static_cast<float*>(Take(count * sizeof(float)));
    if (parameter.shape.rank() > 1) tensor.compute = Take(count * SizeOf(compute));
    tensors_.parameters.push_back(tensor);
  }
  for (const Buffer& buffer : model.buffers) {
    tensors_.buffers.push_back(static_cast<float*>(Take(CountOf(buffer.shape) * sizeof(float))));
  }
}

void* DeviceModel::Take(size_t bytes) {
  absl::StatusOr<Memory> memory = device_.Allocate(bytes);
  status_.Update(memory.status());
  if (!memory.ok()) return nullptr;
  return memory_.emplace_back(*std::move(memory)).get();
}

absl::Status DeviceModel::SetWeights(const TensorSet& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    std::vector<float> ordered(weights[i].size());
    ToDeviceOrder(model_.parameters[i], weights[i], ordered);
    const DeviceTensors::Parameter& to = tensors_.parameters[i];
    MILLRACE_RETURN_IF_ERROR(
        device_.Copy(to.master, ordered.data(), ordered.size() * sizeof(float)));
    if (to.compute != nullptr) {
      const std::vector<std::byte> copy = FromFloats(ordered, compute_);
      MILLRACE_RETURN_IF_ERROR(device_.Copy(to.compute, copy.data(), copy.size()));
    }
    MILLRACE_RETURN_IF_ERROR(device_.Synchronize());
  }
  return absl::OkStatus();
}

absl::Status DeviceModel::SetBuffers(const TensorSet& buffers) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        device_.Copy(tensors_.buffers[i], buffers[i].data(), buffers[i].size() * sizeof(float)));
  }
  return device_.Synchronize();
}

absl::StatusOr<TensorSet> DeviceModel::Gradients() const {
  TensorSet gradients = MakeZeros(model_);
  for (size_t i = 0; i < gradients.size(); ++i) {
    std::vector<float> ordered(gradients[i].size());
    MILLRACE_RETURN_IF_ERROR(device_.Copy(ordered.data(), tensors_.parameters[i].gradient,
                                          ordered.size() * sizeof(float)));
    MILLRACE_RETURN_IF_ERROR(device_.Synchronize());
    FromDeviceOrder(model_.parameters[i], ordered, gradients[i]);
  }
  return gradients;
}

}  // namespace millrace::trainer::cuda
