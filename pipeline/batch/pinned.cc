#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/batch/cuda_devices.h"
#include "pipeline/batch/host_allocator.h"

namespace millrace::pipeline {
namespace {

class PinnedAllocator final : public HostAllocator {
 public:
  // cudaHostAlloc returns whole pages, which are aligned to far more than 64; the driver maps large
  // blocks with large pages itself.
  absl::StatusOr<std::byte*> Allocate(size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (error != cudaSuccess) {
      cudaGetLastError();  // clears the error, which is reported here
      return absl::ResourceExhaustedError(
          absl::StrCat("cudaHostAlloc of ", bytes, " B: ", cudaGetErrorString(error)));
    }
    return static_cast<std::byte*>(memory);
  }
  // Fails only while the process is being torn down, when the driver has freed everything already.
  void Free(std::byte* memory, size_t) override {
    if (cudaFreeHost(memory) != cudaSuccess) cudaGetLastError();
  }
  std::string_view name() const override { return "pinned"; }
};

}  // namespace

absl::StatusOr<std::shared_ptr<HostAllocator>> MakePinnedAllocator() {
  MILLRACE_RETURN_IF_ERROR(CountCudaDevices().status());
  return std::make_shared<PinnedAllocator>();
}

}  // namespace millrace::pipeline
