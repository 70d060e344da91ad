#ifndef MILLRACE_TRAINER_BACKEND_CUDA_DEVICE_AVERAGE_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_DEVICE_AVERAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/parameter_store.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/weight_average.h"

namespace millrace::trainer::cuda {

// An exponential moving average of the weights of a store, as WeightAverage (weight_average.h) of
// those of the host, with the same bits. Thread-compatible.
class DeviceAverage final : public TrainedAverage {
 public:
  // `start`: the first weights, or a checkpoint's average. The store outlives it.
  //   RESOURCE_EXHAUSTED  no memory
  //   other               as ParameterStore::Import
  static absl::StatusOr<std::unique_ptr<DeviceAverage>> Make(ParameterStore& store,
                                                             const TensorSet& start, double decay,
                                                             bool warmup);

  // Add and Swap do not wait for the device.
  absl::Status Add(uint64_t count) override;
  absl::Status Swap() override;
  absl::StatusOr<TensorSet> Export() const override;

 private:
  DeviceAverage(ParameterStore& store, double decay, bool warmup, Memory memory)
      : store_(store), decay_(decay), warmup_(warmup), memory_(std::move(memory)) {}
  float* average() const { return reinterpret_cast<float*>(memory_.get()); }

  ParameterStore& store_;
  const double decay_;
  const bool warmup_;
  const Memory memory_;  // as the arena of weights
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_DEVICE_AVERAGE_H_
