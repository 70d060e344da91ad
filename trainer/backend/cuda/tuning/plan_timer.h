#ifndef MILLRACE_TRAINER_BACKEND_CUDA_TUNING_PLAN_TIMER_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_TUNING_PLAN_TIMER_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"

namespace millrace::trainer::cuda {

// Times the plans of one product, on tensors of its sizes in memory of its own. They hold random
// numbers: a device computes quicker with zeros, for which it needs less power.
class PlanTimer {
 public:
  // The device outlives it.
  //   RESOURCE_EXHAUSTED  the device has no memory for the tensors
  static absl::StatusOr<PlanTimer> Make(Device& device, const ProductSpec& spec);

  // The milliseconds of one run: the median of several samples, each of as many runs as take a
  // millisecond, after some that do not count. Waits for the device.
  //   RESOURCE_EXHAUSTED  the device has no memory for the workspace
  absl::StatusOr<double> Measure(const Product& product);

 private:
  explicit PlanTimer(Device& device) : device_(&device) {}

  // The milliseconds of `count` runs, one after the other.
  absl::StatusOr<double> Time(const Product& product, int count);
  absl::Status Fill(const ProductSpec& spec, size_t bytes);

  Device* device_;
  Memory memory_;
  ProductTensors tensors_;
  Memory workspace_;
  size_t workspace_bytes_ = 0;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_TUNING_PLAN_TIMER_H_
