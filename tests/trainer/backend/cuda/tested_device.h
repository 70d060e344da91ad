#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_TESTED_DEVICE_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_TESTED_DEVICE_H_

#include <memory>
#include <utility>

#include "tests/trainer/backend/cuda/device_model.h"
#include "tests/trainer/backend/cuda/host_device.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/tested_backend.h"
#include "trainer/backend/cuda/backend.h"

namespace millrace::trainer::cuda {

inline DType ComputeType(Precision precision) {
  if (precision == Precision::kFloat32) return DType::kF32;
  return precision == Precision::kFloat16 ? DType::kF16 : DType::kBF16;
}

// The backend of a device, over one that the host stands in for.
class TestedDevice final : public TestedBackend {
 public:
  static absl::StatusOr<std::unique_ptr<TestedBackend>> Make(
      const Model& model, const TensorSet& weights, const TensorSet& buffers,
      const BackendOptions& options, const NetworkOptions& more = {}, bool defers = false) {
    std::unique_ptr<TestedDevice> tested(new TestedDevice(model, options.precision, defers));
    MILLRACE_RETURN_IF_ERROR(tested->model_.status());
    MILLRACE_RETURN_IF_ERROR(tested->model_.SetWeights(weights));
    MILLRACE_RETURN_IF_ERROR(tested->model_.SetBuffers(buffers));
    MILLRACE_ASSIGN_OR_RETURN(
        tested->backend_,
        MakeDeviceBackend(tested->device_, model, tested->model_.tensors(), options, more));
    return tested;
  }

  Backend& backend() override { return *backend_; }
  void SetWeights(const TensorSet& weights) override {
    const absl::Status status = model_.SetWeights(weights);
    EXPECT_TRUE(status.ok()) << status;
  }
  TensorSet Gradients() override {
    absl::StatusOr<TensorSet> gradients = model_.Gradients();
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return gradients.ok() ? *std::move(gradients) : TensorSet();
  }
  HostDevice& device() { return device_; }
  DeviceModel& model() { return model_; }

 private:
  TestedDevice(const Model& model, Precision precision, bool defers)
      : device_(HostKernels(), defers), model_(device_, model, ComputeType(precision)) {}

  HostDevice device_;
  DeviceModel model_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_TESTED_DEVICE_H_
