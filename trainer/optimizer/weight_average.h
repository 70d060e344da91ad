#ifndef MILLRACE_TRAINER_OPTIMIZER_WEIGHT_AVERAGE_H_
#define MILLRACE_TRAINER_OPTIMIZER_WEIGHT_AVERAGE_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/elements.h"

namespace millrace::trainer {

// The slot of the average in checkpoints.
inline constexpr char kAverageSlot[] = "ema";

// The arithmetic of update `count`, from 1. With `warmup` the decay of the nth update is at most
// (1 + n) / (10 + n).
AverageElement AverageElementOf(double decay, bool warmup, uint64_t count);

// An exponential moving average of weights, whole on every rank. Thread-compatible.
class WeightAverage {
 public:
  // `start`: the first weights, or a checkpoint's average.
  WeightAverage(double decay, bool warmup, TensorSet start)
      : decay_(decay), warmup_(warmup), tensors_(std::move(start)) {}

  // Takes the weights after update `count`, from 1.
  void Add(uint64_t count, const TensorSet& weights);

  // Exchanges the values of the average and of `weights`, not their memory.
  void SwapWith(TensorSet& weights);

  const TensorSet& tensors() const { return tensors_; }

 private:
  double decay_;
  bool warmup_;
  TensorSet tensors_;
};

// The average of the weights of a model that is trained, wherever both are. Thread-compatible.
class TrainedAverage {
 public:
  virtual ~TrainedAverage() = default;

  // Takes the weights after update `count`, from 1.
  virtual absl::Status Add(uint64_t count) = 0;
  // Exchanges the values of the average and of the weights.
  virtual absl::Status Swap() = 0;
  // A copy of the average.
  virtual absl::StatusOr<TensorSet> Export() const = 0;
};

// That of weights in the host's memory.
class HostAverage final : public TrainedAverage {
 public:
  // `weights` outlive it.
  HostAverage(WeightAverage average, TensorSet& weights)
      : average_(std::move(average)), weights_(weights) {}

  absl::Status Add(uint64_t count) override {
    average_.Add(count, weights_);
    return absl::OkStatus();
  }
  absl::Status Swap() override {
    average_.SwapWith(weights_);
    return absl::OkStatus();
  }
  absl::StatusOr<TensorSet> Export() const override { return average_.tensors(); }

 private:
  WeightAverage average_;
  TensorSet& weights_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_WEIGHT_AVERAGE_H_
