// A CUDA device over the CUDA runtime: one stream, memory, events and graphs.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cuda_calls.h"
#include "base/status.h"
#include "trainer/backend/cuda/cudnn/products.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace millrace::trainer::cuda {
namespace {

using ::millrace::cuda::CurrentDevice;
using ::millrace::cuda::Ignore;
using ::millrace::cuda::ToStatus;

// An event. Waiting for it leaves the core to others: a step takes milliseconds.
class CudaMark final : public Mark {
 public:
  CudaMark(int ordinal, cudaEvent_t event) : ordinal_(ordinal), event_(event) {}
  ~CudaMark() override {
    const CurrentDevice current(ordinal_);
    Ignore(cudaEventDestroy(event_));
  }
  cudaEvent_t event() const { return event_; }

 private:
  const int ordinal_;
  const cudaEvent_t event_;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(int ordinal, cudaGraphExec_t graph) : ordinal_(ordinal), graph_(graph) {}
  ~CudaGraph() override {
    const CurrentDevice current(ordinal_);
    Ignore(cudaGraphExecDestroy(graph_));
  }
  cudaGraphExec_t graph() const { return graph_; }

 private:
  const int ordinal_;
  const cudaGraphExec_t graph_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, cudaStream_t stream, std::string name,
             std::unique_ptr<CudnnProducts> products)
      : ordinal_(ordinal),
        stream_(stream),
        name_(std::move(name)),
        products_(std::move(products)) {}
  ~CudaDevice() override {
    const CurrentDevice current(ordinal_);
    Ignore(cudaStreamSynchronize(stream_));
    products_.reset();  // cuDNN's context has the stream
    Ignore(cudaStreamDestroy(stream_));
  }

  std::string Describe() const override {
    return absl::StrCat(name_, " (CUDA device ", ordinal_, "), ", products_->Describe());
  }
  void* stream() const override { return stream_; }
  absl::Status OnDevice(const std::function<absl::Status()>& body) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return body();
  }
  const Kernels& kernels() const override { return CudaKernels(); }
  MadeProduct MakeProduct(const ProductSpec& spec) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return products_->MakeProduct(spec);
  }
  std::vector<MadeProduct> MakeProducts(std::span<const ProductRequest> requests,
                                        int threads) override;
  absl::StatusOr<std::vector<std::string>> PlansOf(const ProductSpec& spec) override {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return products_->PlansOf(spec, kMaxPlans);
  }
  std::string PlansKey() const override { return absl::StrCat(name_, ", ", products_->Describe()); }
  absl::StatusOr<double> Time(const std::function<absl::Status()>& work) override;

  absl::StatusOr<Memory> Allocate(size_t bytes) override;
  absl::StatusOr<Memory> AllocateHost(size_t bytes) override;

  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    return Call("cudaMemcpyAsync",
                [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_); });
  }
  absl::Status Zero(void* memory, size_t bytes) override {
    return Call("cudaMemsetAsync", [&] { return cudaMemsetAsync(memory, 0, bytes, stream_); });
  }

  absl::StatusOr<std::unique_ptr<Mark>> MakeMark() override {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CudaMark> mark,
                              MakeMarkWith(cudaEventDisableTiming | cudaEventBlockingSync));
    return mark;
  }
  absl::Status Record(Mark& mark) override {
    return Call("cudaEventRecord", [&] { return cudaEventRecord(EventOf(mark), stream_); });
  }
  absl::Status Wait(const Mark& mark) override {
    return Call("cudaEventSynchronize", [&] { return cudaEventSynchronize(EventOf(mark)); });
  }
  absl::Status Synchronize() override {
    return Call("cudaStreamSynchronize", [&] { return cudaStreamSynchronize(stream_); });
  }
  // Other threads of the process may allocate meanwhile.
  absl::Status BeginCapture() override {
    return Call("cudaStreamBeginCapture",
                [&] { return cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal); });
  }
  absl::StatusOr<std::unique_ptr<Graph>> EndCapture() override;
  absl::Status Launch(const Graph& graph) override {
    return Call("cudaGraphLaunch", [&] {
      return cudaGraphLaunch(static_cast<const CudaGraph&>(graph).graph(), stream_);
    });
  }

 private:
  absl::StatusOr<std::unique_ptr<CudaMark>> MakeMarkWith(unsigned flags) const;
  static cudaEvent_t EventOf(const Mark& mark) {
    return static_cast<const CudaMark&>(mark).event();
  }
  template <typename Body>
  absl::Status Call(std::string_view name, const Body& body) const {
    const CurrentDevice current(ordinal_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return ToStatus(body(), name);
  }

  const int ordinal_;
  const cudaStream_t stream_;
  const std::string name_;
  std::unique_ptr<CudnnProducts> products_;
};

absl::StatusOr<Memory> CudaDevice::Allocate(size_t bytes) {
  void* memory = nullptr;
  MILLRACE_RETURN_IF_ERROR(
      Call("cudaMalloc", [&] { return cudaMalloc(&memory, std::max<size_t>(1, bytes)); }));
  Memory owner(static_cast<std::byte*>(memory), [this](std::byte* mine) {
    const CurrentDevice current(ordinal_);
    Ignore(cudaStreamSynchronize(stream_));
    Ignore(cudaFree(mine));
  });
  MILLRACE_RETURN_IF_ERROR(Zero(memory, bytes));
  return owner;
}

absl::StatusOr<Memory> CudaDevice::AllocateHost(size_t bytes) {
  void* memory = nullptr;
  MILLRACE_RETURN_IF_ERROR(Call("cudaHostAlloc", [&] {
    return cudaHostAlloc(&memory, std::max<size_t>(1, bytes), cudaHostAllocDefault);
  }));
  std::memset(memory, 0, bytes);
  return Memory(static_cast<std::byte*>(memory), [this](std::byte* mine) {
    const CurrentDevice current(ordinal_);
    Ignore(cudaStreamSynchronize(stream_));
    Ignore(cudaFreeHost(mine));
  });
}

absl::StatusOr<std::unique_ptr<CudaMark>> CudaDevice::MakeMarkWith(unsigned flags) const {
  cudaEvent_t event = nullptr;
  MILLRACE_RETURN_IF_ERROR(
      Call("cudaEventCreateWithFlags", [&] { return cudaEventCreateWithFlags(&event, flags); }));
  return std::make_unique<CudaMark>(ordinal_, event);
}

std::vector<MadeProduct> CudaDevice::MakeProducts(std::span<const ProductRequest> requests,
                                                  int threads) {
  std::vector<MadeProduct> made;
  const absl::Status status = OnDevice([&] {
    made = products_->MakeProducts(
        requests, threads,
        [this](const std::function<absl::Status()>& body) { return OnDevice(body); });
    return absl::OkStatus();
  });
  while (made.size() < requests.size()) made.emplace_back(status);
  return made;
}

// Work that was given before a failure is done before the caller may free its memory.
absl::StatusOr<double> CudaDevice::Time(const std::function<absl::Status()>& work) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CudaMark> begin, MakeMarkWith(cudaEventDefault));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CudaMark> end, MakeMarkWith(cudaEventDefault));
  MILLRACE_RETURN_IF_ERROR(Record(*begin));
  const absl::Status worked = OnDevice(work);
  MILLRACE_RETURN_IF_ERROR(Record(*end));
  MILLRACE_RETURN_IF_ERROR(Wait(*end));
  MILLRACE_RETURN_IF_ERROR(worked);
  float ms = 0;
  MILLRACE_RETURN_IF_ERROR(Call("cudaEventElapsedTime", [&] {
    return cudaEventElapsedTime(&ms, begin->event(), end->event());
  }));
  return ms;
}

absl::StatusOr<std::unique_ptr<Graph>> CudaDevice::EndCapture() {
  cudaGraph_t graph = nullptr;
  MILLRACE_RETURN_IF_ERROR(
      Call("cudaStreamEndCapture", [&] { return cudaStreamEndCapture(stream_, &graph); }));
  cudaGraphExec_t made = nullptr;
  const absl::Status status =
      Call("cudaGraphInstantiate", [&] { return cudaGraphInstantiate(&made, graph, 0); });
  Ignore(cudaGraphDestroy(graph));
  MILLRACE_RETURN_IF_ERROR(status);
  auto owner = std::make_unique<CudaGraph>(ordinal_, made);
  // Else the first launch does it, behind which other work of the device may be under way.
  MILLRACE_RETURN_IF_ERROR(Call("cudaGraphUpload", [&] { return cudaGraphUpload(made, stream_); }));
  return owner;
}

absl::StatusOr<std::string> NameOf(int ordinal) {
  cudaDeviceProp properties;
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties"));
  return std::string(properties.name);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int ordinal) {
  MILLRACE_RETURN_IF_ERROR(::millrace::cuda::CheckDevice(ordinal));
  const CurrentDevice current(ordinal);
  MILLRACE_RETURN_IF_ERROR(current.status());
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CudnnProducts> products, CudnnProducts::Make({}));
  MILLRACE_ASSIGN_OR_RETURN(std::string name, NameOf(ordinal));
  MILLRACE_ASSIGN_OR_RETURN(const cudaStream_t stream, ::millrace::cuda::MakeStream(ordinal));
  return std::make_unique<CudaDevice>(ordinal, stream, std::move(name), std::move(products));
}

}  // namespace millrace::trainer::cuda
