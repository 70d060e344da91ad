#ifndef MILLRACE_TRAINER_BACKEND_CUDA_DEVICE_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/cuda/product.h"

namespace millrace::trainer::cuda {

struct Kernels;  // trainer/backend/cuda/kernels/kernels.h

// Bytes of a device's memory, or of page-locked memory of the host, with their owner.
using Memory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;

// As many plans of a product are compared.
inline constexpr size_t kMaxPlans = 8;

// Work that a device was given once, to be given again at less cost.
class Graph {
 public:
  virtual ~Graph() = default;
};

// A place in the order of a device's work. Until it is recorded it has passed.
class Mark {
 public:
  virtual ~Mark() = default;
};

// A device that computes: its memory, its kernels, and one stream, on which all work that the calls
// below give it runs in the order of the calls, beside the host. Thread-compatible; leaves the
// thread's current device as it was.
//
// Every call may return
//   RESOURCE_EXHAUSTED  no memory is left
//   INTERNAL            any other error of the driver or a library, by name; work that was given
//                       earlier may have caused it
class Device {
 public:
  virtual ~Device() = default;

  // "NVIDIA H100 80GB HBM3 (CUDA device 0), cuDNN 9.19.0": for people.
  virtual std::string Describe() const = 0;

  // `bytes` zeros of the device's memory, aligned to 256. The device outlives them; they are given
  // back when no work that was given so far can use them. For arenas: a call may wait for the
  // device.
  virtual absl::StatusOr<Memory> Allocate(size_t bytes) = 0;
  // The same of the host's memory, from which and to which copies do not wait.
  virtual absl::StatusOr<Memory> AllocateHost(size_t bytes) = 0;

  // The stream, as kernels, products and reducers take it (a cudaStream_t).
  virtual void* stream() const = 0;
  // Runs `body` while the device is the thread's current one, as kernels and products need it.
  virtual absl::Status OnDevice(const std::function<absl::Status()>& body) { return body(); }
  virtual const Kernels& kernels() const = 0;
  // Makes a product by a plan of the device's choice.
  //   UNIMPLEMENTED       the device has no code for it; the text says which product
  virtual MadeProduct MakeProduct(const ProductSpec& spec) = 0;
  // Makes the products of all requests, in up to `threads` threads. As MakeProduct, or
  //   NOT_FOUND           the device has no such plan for the product
  //   UNIMPLEMENTED       or: the plan cannot be built
  virtual std::vector<MadeProduct> MakeProducts(std::span<const ProductRequest> requests,
                                                int threads) = 0;
  // The names of the first plans that MakeProduct looks at, at most kMaxPlans, no name twice: those
  // first that a library's heuristics expect to be quick. UNIMPLEMENTED: as of MakeProduct.
  virtual absl::StatusOr<std::vector<std::string>> PlansOf(const ProductSpec& spec) = 0;
  // "NVIDIA H200, cuDNN 9.19.0": devices of equal texts have the same plans, equally quick ones.
  virtual std::string PlansKey() const = 0;
  // Gives the device `work`, waits for it, and returns the milliseconds for which the device was at
  // it. Fails as `work` does, too.
  virtual absl::StatusOr<double> Time(const std::function<absl::Status()>& work) = 0;

  // Copies between memory of the host and of the device, in either direction or within one. Memory
  // of the host stays as it is until the copy is done; if it is not page-locked, the call may wait.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status Zero(void* memory, size_t bytes) = 0;

  virtual absl::StatusOr<std::unique_ptr<Mark>> MakeMark() = 0;
  // `mark` passes once all work given so far is done. Recording it again moves it.
  virtual absl::Status Record(Mark& mark) = 0;
  // Waits on the host until `mark` has passed, or the work before it failed.
  virtual absl::Status Wait(const Mark& mark) = 0;
  // Waits on the host until all work given so far is done.
  virtual absl::Status Synchronize() = 0;

  // Until EndCapture, work is not done but kept. Only kernels, products, Copy within the device and
  // Zero may be captured.
  virtual absl::Status BeginCapture() = 0;
  virtual absl::StatusOr<std::unique_ptr<Graph>> EndCapture() = 0;
  virtual absl::Status Launch(const Graph& graph) = 0;
};

// The CUDA device `ordinal`.
//   UNIMPLEMENTED        this build has no CUDA parts
//   FAILED_PRECONDITION  the driver, a device or cuDNN is missing or too old; the text says which
//   INVALID_ARGUMENT     there are devices, but none of that ordinal
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int ordinal);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_DEVICE_H_
