#include <cuda_runtime_api.h>

#include <string_view>
#include <utility>

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
    MILLRACE_ASSIGN_OR_RETURN(const cudaEvent_t event, cuda::MakeEvent());
    if (absl::Status status = ToStatus(cudaEventRecord(event, stream_), "cudaEventRecord");
        !status.ok()) {
      Ignore(cudaEventDestroy(event));
      return status;
    }
    return static_cast<void*>(event);
  }
  absl::StatusOr<bool> Query(void* event) override { return cuda::HasPassed(AsEvent(event)); }
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
  MILLRACE_RETURN_IF_ERROR(cuda::CheckDevice(ordinal));
  if (stream != nullptr) {
    return std::make_unique<CudaQueue>(ordinal, static_cast<cudaStream_t>(stream), false);
  }
  MILLRACE_ASSIGN_OR_RETURN(const cudaStream_t own, cuda::MakeStream(ordinal));
  return std::make_unique<CudaQueue>(ordinal, own, true);
}

}  // namespace millrace::collectives
