#ifndef MILLRACE_TRAINER_BACKEND_CUDA_TENSOR_COPIER_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_TENSOR_COPIER_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/model/model.h"
#include "trainer/optimizer/slots.h"

namespace millrace::trainer::cuda {

// Copies tensors between the host, in the model's order, and a device, in the device's
// (ToDeviceOrder), through page-locked memory. A tensor goes some filters at a time, so that the
// host's memory stays small. Calls wait; their errors name the tensor. Thread-compatible.
class TensorCopier {
 public:
  // Of tensors as large as those of `model`. The device outlives it.
  //   RESOURCE_EXHAUSTED  no memory
  static absl::StatusOr<std::unique_ptr<TensorCopier>> Make(Device& device, const Model& model);

  // Copies elements [begin, end) of a whole tensor, as the device numbers them, to `to`.
  absl::Status Upload(const Parameter& parameter, std::span<const float> from, const Piece& piece,
                      float* to);
  // Copies a whole tensor.
  absl::Status Download(const Parameter& parameter, const float* from, std::span<float> to);

 private:
  TensorCopier(Device& device, size_t size, Memory staging, std::unique_ptr<Mark> mark)
      : device_(device), size_(size), staging_(std::move(staging)), mark_(std::move(mark)) {}
  // The elements that go at a time, which are whole filters.
  size_t PartOf(const Parameter& parameter) const;
  absl::Status CopyAndWait(void* to, const void* from, size_t elements);
  std::span<float> staging(size_t elements) const {
    return {reinterpret_cast<float*>(staging_.get()), elements};
  }

  Device& device_;
  const size_t size_;  // of the staging memory, in elements
  const Memory staging_;
  const std::unique_ptr<Mark> mark_;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_TENSOR_COPIER_H_
