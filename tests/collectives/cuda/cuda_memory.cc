#include <cuda_runtime_api.h>

#include "tests/collectives/cuda/gpu_memory.h"

namespace millrace::collectives {
namespace {

absl::Status ToStatus(cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(cudaGetErrorString(error));
}

}  // namespace

absl::StatusOr<void*> AllocateOnGpu(size_t bytes) {
  void* memory = nullptr;
  const absl::Status status = ToStatus(cudaMalloc(&memory, bytes));
  if (!status.ok()) return status;
  return memory;
}

void FreeOnGpu(void* memory) { cudaFree(memory); }

absl::Status CopyToGpu(void* memory, const void* host, size_t bytes) {
  const cudaError_t error = cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice);
  // A copy from pageable memory may return before its last part has reached the device.
  return ToStatus(error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error);
}

absl::Status CopyFromGpu(void* host, const void* memory, size_t bytes) {
  return ToStatus(cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost));
}

}  // namespace millrace::collectives
