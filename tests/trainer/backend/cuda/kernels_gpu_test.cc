// The kernels on a GPU have the bits of the same sources on the host. Without a GPU the case is
// skipped and counted.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <vector>

#include "absl/status/status.h"
#include "base/cuda_calls.h"
#include "base/status.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/kernel_cases.h"

namespace millrace::trainer::cuda {
namespace {

using millrace::cuda::Ignore;
using millrace::cuda::ToStatus;

// A copy of tensors in the device's memory.
class DeviceCopies {
 public:
  DeviceCopies() = default;
  ~DeviceCopies() {
    for (void* const memory : memory_) Ignore(cudaFree(memory));
  }
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  absl::Status Make(const std::vector<KernelTensor>& tensors) {
    for (const KernelTensor& tensor : tensors) {
      void* memory = nullptr;
      MILLRACE_RETURN_IF_ERROR(
          ToStatus(cudaMalloc(&memory, tensor.bytes().size() + 1), "cudaMalloc"));
      memory_.push_back(memory);
      at_.push_back(static_cast<std::byte*>(memory) + tensor.offset());
      MILLRACE_RETURN_IF_ERROR(ToStatus(
          cudaMemcpy(memory, tensor.bytes().data(), tensor.bytes().size(), cudaMemcpyHostToDevice),
          "cudaMemcpy"));
    }
    return absl::OkStatus();
  }
  absl::Status Fetch(std::vector<KernelTensor>& tensors) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(
          ToStatus(cudaMemcpy(tensors[i].bytes().data(), memory_[i], tensors[i].bytes().size(),
                              cudaMemcpyDeviceToHost),
                   "cudaMemcpy"));
    }
    return absl::OkStatus();
  }
  const std::vector<void*>& at() const { return at_; }

 private:
  std::vector<void*> memory_;
  std::vector<void*> at_;
};

absl::Status RunOnDevice(KernelCase& test) {
  DeviceCopies copies;
  MILLRACE_RETURN_IF_ERROR(copies.Make(test.memory));
  MILLRACE_RETURN_IF_ERROR(test.run(CudaKernels(), nullptr, copies.at()));
  MILLRACE_RETURN_IF_ERROR(ToStatus(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  return copies.Fetch(test.memory);
}

TEST(KernelsGpuTest, BitsAreThoseOfTheHost) {
  const auto devices = millrace::cuda::CountDevices();
  if (!devices.ok()) GTEST_SKIP() << devices.status().message();
  for (KernelCase& test : AllKernelCases()) {
    KernelCase expected = test;
    ASSERT_TRUE(expected.RunHere(HostKernels(), nullptr).ok()) << test.name;
    const absl::Status status = RunOnDevice(test);
    ASSERT_TRUE(status.ok()) << test.name << ": " << status;
    for (size_t k = 0; k < test.memory.size(); ++k) {
      EXPECT_EQ(test.memory[k].bytes(), expected.memory[k].bytes())
          << test.name << ", memory " << k;
    }
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
