#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_HOST_DEVICE_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_HOST_DEVICE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/trainer/backend/cuda/host_stream.h"
#include "trainer/backend/cuda/device.h"

namespace millrace::trainer::cuda {

// A device whose memory is the host's: the stand-in of a real one in tests. Products are naive
// loops; kernels are given. Every allocation lies between guard bytes, which are checked when it is
// given back. Thread-compatible, as every device.
class HostDevice final : public Device {
 public:
  // True: work is done only when the host waits for it, so that a missing wait, or memory that is
  // reused too early, shows.
  explicit HostDevice(const Kernels& kernels, bool defers = false);
  ~HostDevice() override;

  // Called before each call, by the name of its method ("Allocate", "Copy", ...), or "Product" for
  // a product that runs; may fail it.
  using Fault = std::function<absl::Status(std::string_view call, const void* to, const void* from,
                                           size_t bytes)>;
  Fault fault;
  // True for a product that this device has no code for.
  std::function<bool(const ProductSpec& spec)> lacks;
  // The plans of every product, which compute alike. MakeProduct takes the first.
  std::vector<std::string> plans = {"naive"};
  std::string plans_key = "host stand-in, no library";
  // Whether a plan can be built; empty: all can.
  std::function<absl::Status(const std::string& plan)> build;
  // What Time tells of work whose last product has this plan; empty: always 1.
  std::function<double(const std::string& plan)> milliseconds;
  // The plans of the products that were made, in their order.
  std::vector<std::string> made;

  // The plan of the product that was given last.
  const std::string& last_plan() const { return last_plan_; }

  // Every allocation of the device's memory.
  std::vector<std::span<std::byte>> memory() const;
  // Bytes that are allocated now: of the device, and of page-locked memory.
  size_t device_bytes() const { return device_bytes_; }
  size_t host_bytes() const { return host_bytes_; }

  std::string Describe() const override { return "host stand-in"; }
  absl::StatusOr<Memory> Allocate(size_t bytes) override;
  absl::StatusOr<Memory> AllocateHost(size_t bytes) override;
  void* stream() const override { return const_cast<HostStream*>(&stream_); }
  const Kernels& kernels() const override { return kernels_; }
  MadeProduct MakeProduct(const ProductSpec& spec) override;
  std::vector<MadeProduct> MakeProducts(std::span<const ProductRequest> requests,
                                        int threads) override;
  absl::StatusOr<std::vector<std::string>> PlansOf(const ProductSpec& spec) override;
  std::string PlansKey() const override { return plans_key; }
  absl::StatusOr<double> Time(const std::function<absl::Status()>& work) override;
  absl::Status Copy(void* to, const void* from, size_t bytes) override;
  absl::Status Zero(void* memory, size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Mark>> MakeMark() override;
  absl::Status Record(Mark& mark) override;
  absl::Status Wait(const Mark& mark) override;
  absl::Status Synchronize() override;
  absl::Status BeginCapture() override;
  absl::StatusOr<std::unique_ptr<Graph>> EndCapture() override;
  absl::Status Launch(const Graph& graph) override;

 private:
  using Work = std::vector<std::function<absl::Status()>>;
  enum class Kind { kDevice, kHost };

  absl::Status Enter(std::string_view call, const void* to = nullptr, const void* from = nullptr,
                     size_t bytes = 0);
  MadeProduct MakeByPlan(const ProductSpec& spec, const std::string& plan);
  absl::StatusOr<Memory> Take(size_t bytes, Kind kind);
  void GiveBack(std::byte* memory);
  // True if [memory, memory + bytes) lies in one allocation of `kind`.
  bool IsIn(const void* memory, size_t bytes, Kind kind) const;
  // Does pending work until `count` pieces were done since the beginning.
  absl::Status DoUntil(size_t count);
  size_t given() const { return done_ + pending_.size(); }

  struct Allocation {
    size_t bytes = 0;
    Kind kind = Kind::kDevice;
  };

  const Kernels& kernels_;
  const bool defers_;
  HostStream stream_;
  Work pending_;
  size_t done_ = 0;  // pieces of pending work that were done
  std::string last_plan_;
  Work captured_;
  bool is_capturing_ = false;
  absl::Status failed_;  // of earlier work; stays
  std::map<const std::byte*, Allocation> allocations_;
  size_t device_bytes_ = 0;
  size_t host_bytes_ = 0;
};

// The naive product of `spec`, on a HostStream.
absl::StatusOr<std::unique_ptr<Product>> MakeHostProduct(const ProductSpec& spec);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_HOST_DEVICE_H_
