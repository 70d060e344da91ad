#ifndef MILLRACE_TRAINER_SGD_H_
#define MILLRACE_TRAINER_SGD_H_

#include <span>

#include "absl/status/statusor.h"
#include "trainer/model.h"
#include "trainer/parameters.h"

namespace millrace::trainer {

class Optimizer;  // job.proto

// Stochastic gradient descent with momentum and weight decay, one fused pass per parameter:
//   d = g + decay * w
//   v = momentum * v + d
//   w -= rate * v   (nesterov: w -= rate * (d + momentum * v))
// The rate stays outside the momentum, so a changing rate needs no correction (Goyal et al. 2017,
// section 3). Thread-compatible.
class Sgd {
 public:
  // `velocity` starts as zeros or as a checkpoint's.
  //   INVALID_ARGUMENT  a number is out of range; the field is named
  static absl::StatusOr<Sgd> Make(const Optimizer& optimizer, const Model& model,
                                  TensorSet velocity);

  // Applies `gradient` to parameter `i`.
  void Apply(size_t i, double rate, std::span<const float> gradient, std::span<float> weights);

  const TensorSet& velocity() const { return velocity_; }

 private:
  Sgd() = default;

  float momentum_ = 0;
  bool nesterov_ = false;
  std::vector<float> decay_;  // per parameter
  TensorSet velocity_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SGD_H_
