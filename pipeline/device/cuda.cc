#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cuda_calls.h"
#include "base/status.h"
#include "pipeline/batch/cuda_devices.h"
#include "pipeline/device/device.h"
#include "pipeline/device_feed.h"

namespace millrace::pipeline {
namespace {

using cuda::CurrentDevice;
using cuda::Ignore;
using cuda::ToStatus;

cudaStream_t AsStream(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t AsEvent(void* event) { return static_cast<cudaEvent_t>(event); }

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, bool has_pools, std::string name)
      : ordinal_(ordinal), has_pools_(has_pools), name_(std::move(name)) {}

  std::string_view name() const override { return name_; }

  // The stream-ordered allocator: cudaMalloc and cudaFree may wait for all of the device.
  absl::StatusOr<std::byte*> Allocate(size_t bytes, void* stream) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    void* memory = nullptr;
    const cudaError_t error =
        has_pools_ ? cudaMallocAsync(&memory, bytes, AsStream(stream)) : cudaMalloc(&memory, bytes);
    MILLRACE_RETURN_IF_ERROR(ToStatus(error, has_pools_ ? "cudaMallocAsync" : "cudaMalloc"));
    return static_cast<std::byte*>(memory);
  }
  void Free(std::byte* memory, void* stream) override {
    const CurrentDevice current(ordinal_);
    Ignore(has_pools_ ? cudaFreeAsync(memory, AsStream(stream)) : cudaFree(memory));
  }

  absl::StatusOr<void*> CreateStream() override {
    MILLRACE_ASSIGN_OR_RETURN(const cudaStream_t stream, cuda::MakeStream(ordinal_));
    return static_cast<void*>(stream);
  }
  void DestroyStream(void* stream) override {
    const CurrentDevice current(ordinal_);
    Ignore(cudaStreamDestroy(AsStream(stream)));
  }

  absl::StatusOr<void*> CreateEvent() override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    MILLRACE_ASSIGN_OR_RETURN(const cudaEvent_t event, cuda::MakeEvent());
    return static_cast<void*>(event);
  }
  void DestroyEvent(void* event) override {
    const CurrentDevice current(ordinal_);
    Ignore(cudaEventDestroy(AsEvent(event)));
  }

  absl::Status Copy(std::byte* device_memory, const void* host_memory, size_t bytes,
                    void* stream) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return ToStatus(cudaMemcpyAsync(device_memory, host_memory, bytes, cudaMemcpyHostToDevice,
                                    AsStream(stream)),
                    "cudaMemcpyAsync");
  }

  absl::Status Record(void* event, void* stream) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return ToStatus(cudaEventRecord(AsEvent(event), AsStream(stream)), "cudaEventRecord");
  }
  absl::StatusOr<bool> Query(void* event) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return cuda::HasPassed(AsEvent(event));
  }
  absl::Status Wait(void* stream, void* event) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return ToStatus(cudaStreamWaitEvent(AsStream(stream), AsEvent(event), cudaEventWaitDefault),
                    "cudaStreamWaitEvent");
  }
  absl::Status Synchronize(void* stream) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return ToStatus(cudaStreamSynchronize(AsStream(stream)), "cudaStreamSynchronize");
  }

 private:
  const int ordinal_;
  const bool has_pools_;  // true if the device has memory pools
  const std::string name_;
};

}  // namespace

absl::StatusOr<int> CountCudaDevices() { return cuda::CountDevices(); }

absl::StatusOr<std::shared_ptr<Device>> MakeCudaDevice(int ordinal) {
  MILLRACE_RETURN_IF_ERROR(cuda::CheckDevice(ordinal));
  int has_pools = 0;
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, ordinal),
               "cudaDeviceGetAttribute"));
  cudaDeviceProp properties;
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties"));
  return std::make_shared<CudaDevice>(
      ordinal, has_pools != 0, absl::StrCat("CUDA device ", ordinal, " (", properties.name, ")"));
}

std::string BuiltInDevices() {
  int version = 0;  // 1000 * major + 10 * minor
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "cuda, of an unknown version";
  return absl::StrCat("cuda ", version / 1000, ".", version % 1000 / 10);
}

bool HasDeviceParts() { return true; }

}  // namespace millrace::pipeline
