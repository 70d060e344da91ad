#include <cuda_runtime_api.h>

#include <string_view>
#include <utility>

#include "base/cuda_calls.h"
#include "base/mutex.h"
#include "base/status.h"
#include "collectives/cuda/kernels.h"
#include "collectives/cuda/queue.h"

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
    Free(partials_);
    if (!owned_) return;
    const CurrentDevice current(ordinal_);
    Ignore(cudaStreamDestroy(stream_));
  }

  // Called before all other methods.
  absl::Status Prepare() {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    loaded_ = ToStatus(kernels::Load(), "the kernels that sum gradients");
    MILLRACE_ASSIGN_OR_RETURN(void* const memory,
                              MakeZeros(kernels::kMaxPartials * sizeof(double)));
    partials_ = static_cast<double*>(memory);
    return absl::OkStatus();
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
    MILLRACE_ASSIGN_OR_RETURN(const cudaEvent_t event, RecordOn(stream_));
    return static_cast<void*>(event);
  }
  absl::StatusOr<bool> Query(void* event) override { return cuda::HasPassed(AsEvent(event)); }
  void Release(void* event) override { Ignore(cudaEventDestroy(AsEvent(event))); }

  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    MILLRACE_RETURN_IF_ERROR(CopyWithin(to, from, bytes));
    return OnDevice(
        [&] { return ToStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); });
  }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    MILLRACE_RETURN_IF_ERROR(loaded_);
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return MakeZeros(bytes);
  }
  void Free(void* memory) override {
    if (memory == nullptr) return;
    const CurrentDevice current(ordinal_);
    Ignore(cudaFreeAsync(memory, stream_));
  }

  absl::Status Follow(void* stream) override {
    return Order(static_cast<cudaStream_t>(stream), stream_);
  }
  absl::Status Precede(void* stream) override {
    return Order(stream_, static_cast<cudaStream_t>(stream));
  }
  absl::Status CopyWithin(void* to, const void* from, size_t bytes) override {
    return OnDevice([&] {
      return ToStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_),
                      "cudaMemcpyAsync");
    });
  }
  absl::Status Zero(void* memory, size_t bytes) override {
    return OnDevice(
        [&] { return ToStatus(cudaMemsetAsync(memory, 0, bytes, stream_), "cudaMemsetAsync"); });
  }
  absl::Status Set(int64_t* to, int64_t value) override {
    return OnDevice([&] {
      return ToStatus(kernels::Set(to, value, stream_), "the kernel that sets a number");
    });
  }
  absl::Status Sum(const BlockSum& sum) override {
    return OnDevice(
        [&] { return ToStatus(kernels::Sum(sum, stream_), "the kernel that sums blocks"); });
  }
  absl::Status AddSquares(const void* data, DType type, size_t count, double* sum) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    // Held while both kernels are issued: another thread's kernel between them would overwrite the
    // partial sums.
    MutexLock lock(mu_);
    return ToStatus(kernels::AddSquares(data, type, count, partials_, sum, stream_),
                    "the kernels that sum squares");
  }

  absl::StatusOr<std::unique_ptr<DeviceQueue>> Another() override {
    return MakeCudaQueue(ordinal_, nullptr);
  }

 private:
  // REQUIRES: the device is the current one. Allocates in the order of the stream, as Free does:
  // cudaMalloc and cudaFree may wait for the whole device, where a kernel of NCCL may wait for a
  // peer that waits in the same way.
  absl::StatusOr<void*> MakeZeros(size_t bytes) {
    void* memory = nullptr;
    MILLRACE_RETURN_IF_ERROR(ToStatus(cudaMallocAsync(&memory, bytes, stream_), "cudaMallocAsync"));
    if (absl::Status status = Zero(memory, bytes); !status.ok()) {
      Free(memory);
      return status;
    }
    return memory;
  }

  // REQUIRES: the device is the current one.
  static absl::StatusOr<cudaEvent_t> RecordOn(cudaStream_t stream) {
    MILLRACE_ASSIGN_OR_RETURN(const cudaEvent_t event, cuda::MakeEvent());
    if (absl::Status status = ToStatus(cudaEventRecord(event, stream), "cudaEventRecord");
        !status.ok()) {
      Ignore(cudaEventDestroy(event));
      return status;
    }
    return event;
  }

  // `second` continues once the work of `first` so far is done.
  absl::Status Order(cudaStream_t first, cudaStream_t second) const {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    MILLRACE_ASSIGN_OR_RETURN(const cudaEvent_t event, RecordOn(first));
    const absl::Status status =
        ToStatus(cudaStreamWaitEvent(second, event, 0), "cudaStreamWaitEvent");
    Ignore(cudaEventDestroy(event));  // the driver keeps it until it has passed
    return status;
  }

  const int ordinal_;
  const cudaStream_t stream_;
  const bool owned_;
  absl::Status loaded_;         // an error if this build has no kernels for the device
  double* partials_ = nullptr;  // of AddSquares
  Mutex mu_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceQueue>> MakeCudaQueue(int ordinal, void* stream) {
  MILLRACE_RETURN_IF_ERROR(cuda::CheckDevice(ordinal));
  cudaStream_t run_on = static_cast<cudaStream_t>(stream);
  if (stream == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(run_on, cuda::MakeStream(ordinal));
  }
  auto queue = std::make_unique<CudaQueue>(ordinal, run_on, /*owned=*/stream == nullptr);
  MILLRACE_RETURN_IF_ERROR(queue->Prepare());
  return queue;
}

}  // namespace millrace::collectives
