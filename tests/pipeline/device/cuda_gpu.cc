#include <cuda_runtime_api.h>

#include "tests/pipeline/device/gpu.h"

namespace millrace::pipeline {

absl::Status ReadBackFromGpu(void* host, const void* memory, size_t bytes, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  cudaError_t error = cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, cuda_stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(cuda_stream);
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(cudaGetErrorString(error));
}

}  // namespace millrace::pipeline
