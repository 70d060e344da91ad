#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_DEVICE_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_DEVICE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/order/recording.h"
#include "trainer/backend/cuda/device.h"

namespace millrace::trainer::cuda::order {

// A device that does no work and records all of it, on a stream "compute". Memory of the device is
// addresses alone; page-locked memory of the host exists, and is zeros, for a copy from the device
// writes nothing to it.
//
// The host's own accesses to page-locked memory do not go through a device. So a copy from it is
// taken for one of bytes that the host has just written, and what was copied to it is
// read at ReadByHost. Such copies belong to no operation.
class RecordingDevice final : public Device {
 public:
  // `recording` outlives the device.
  explicit RecordingDevice(Recording& recording);

  std::string Describe() const override { return "recording device"; }
  absl::StatusOr<Memory> Allocate(size_t bytes) override;
  absl::StatusOr<Memory> AllocateHost(size_t bytes) override;
  void* stream() const override { return stream_; }
  const Kernels& kernels() const override;
  MadeProduct MakeProduct(const ProductSpec& spec) override;
  std::vector<MadeProduct> MakeProducts(std::span<const ProductRequest> requests,
                                        int threads) override;
  absl::StatusOr<std::vector<std::string>> PlansOf(const ProductSpec&) override {
    return absl::UnimplementedError("plans are not recorded");
  }
  std::string PlansKey() const override { return Describe(); }
  absl::StatusOr<double> Time(const std::function<absl::Status()>&) override {
    return absl::UnimplementedError("times are not recorded");
  }
  absl::Status Copy(void* to, const void* from, size_t bytes) override;
  absl::Status Zero(void* memory, size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Mark>> MakeMark() override;
  absl::Status Record(Mark& mark) override;
  absl::Status Wait(const Mark& mark) override;
  absl::Status Synchronize() override;
  absl::Status BeginCapture() override;
  absl::StatusOr<std::unique_ptr<Graph>> EndCapture() override;
  absl::Status Launch(const Graph& graph) override;

  // The host reads all that was copied to its memory since the last time.
  void ReadByHost();

 private:
  // The calls that a capture does not allow.
  absl::Status CheckNotCapturing(const char* call) const;
  int number() const { return stream_->number; }

  Recording& recording_;
  Recording::Stream* const stream_;
  std::vector<Use> copied_;  // to the host's memory
};

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_DEVICE_H_
