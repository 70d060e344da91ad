#include <cuda_runtime_api.h>

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cuda_calls.h"
#include "base/status.h"
#include "collectives/device_queue_internal.h"

namespace millrace::collectives {
namespace {

using cuda::CurrentDevice;
using cuda::Ignore;
using cuda::ToStatus;

cudaEvent_t AsEvent(void* event) { return static_cast<cudaEvent_t>(event); }

class CudaQueue final : public DeviceQueue {
 public:
  CudaQueue(int ordinal, cudaStream_t stream, bool owned)
      : ordinal_(ordinal), stream_(stream), owned_(owned) {}
  ~CudaQueue() override {
    if (!owned_) return;
    const CurrentDevice current(ordinal_);
    Ignore(cudaStreamDestroy(stream_));
  }

  void* stream() const override { return stream_; }

  absl::Status OnDevice(const std::function<absl::Status()>& body) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return body();
  }

  absl::StatusOr<void*> Record() override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    cudaEvent_t event = nullptr;
    MILLRACE_RETURN_IF_ERROR(ToStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                                      "cudaEventCreateWithFlags"));
    if (absl::Status status = ToStatus(cudaEventRecord(event, stream_), "cudaEventRecord");
        !status.ok()) {
      Ignore(cudaEventDestroy(event));
      return status;
    }
    return static_cast<void*>(event);
  }
  absl::StatusOr<bool> Query(void* event) override {
    const cudaError_t error = cudaEventQuery(AsEvent(event));
    if (error == cudaErrorNotReady) {
      cudaGetLastError();  // it counts as the thread's last error too
      return false;
    }
    MILLRACE_RETURN_IF_ERROR(ToStatus(error, "cudaEventQuery"));
    return true;
  }
  void Release(void* event) override { Ignore(cudaEventDestroy(AsEvent(event))); }

  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    MILLRACE_RETURN_IF_ERROR(
        ToStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync"));
    return ToStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  absl::StatusOr<std::unique_ptr<DeviceQueue>> Another() override {
    return MakeCudaQueue(ordinal_, nullptr);
  }

 private:
  const int ordinal_;
  const cudaStream_t stream_;
  const bool owned_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceQueue>> MakeCudaQueue(int ordinal, void* stream) {
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    cudaGetLastError();
    return absl::FailedPreconditionError(absl::StrCat(
        "no CUDA device: ", error != cudaSuccess ? cudaGetErrorString(error) : "none present"));
  }
  if (ordinal < 0 || ordinal >= num_devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("no CUDA device ", ordinal, ": there are ", num_devices));
  }
  if (stream != nullptr) {
    return std::make_unique<CudaQueue>(ordinal, static_cast<cudaStream_t>(stream), false);
  }
  const CurrentDevice current(ordinal);
  MILLRACE_RETURN_IF_ERROR(current.status());
  cudaStream_t own = nullptr;
  MILLRACE_RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking),
                                    "cudaStreamCreateWithFlags"));
  return std::make_unique<CudaQueue>(ordinal, own, true);
}

}  // namespace millrace::collectives
