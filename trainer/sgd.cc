#include "trainer/sgd.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "trainer/job.pb.h"

namespace millrace::trainer {

absl::StatusOr<Sgd> Sgd::Make(const Optimizer& optimizer, const Model& model, TensorSet velocity) {
  if (!(optimizer.momentum() >= 0 && optimizer.momentum() < 1)) {
    return absl::InvalidArgumentError("optimizer.momentum must be in [0, 1)");
  }
  if (!(optimizer.weight_decay() >= 0 && std::isfinite(optimizer.weight_decay()))) {
    return absl::InvalidArgumentError("optimizer.weight_decay must be 0 or more");
  }
  if (optimizer.nesterov() && optimizer.momentum() == 0) {
    return absl::InvalidArgumentError("optimizer.nesterov needs a momentum");
  }
  Sgd sgd;
  sgd.momentum_ = static_cast<float>(optimizer.momentum());
  sgd.nesterov_ = optimizer.nesterov();
  for (const Parameter& parameter : model.parameters) {
    const bool decays = !parameter.is_bias || optimizer.decay_bias();
    sgd.decay_.push_back(decays ? static_cast<float>(optimizer.weight_decay()) : 0.0f);
  }
  sgd.velocity_ = std::move(velocity);
  return sgd;
}

void Sgd::Apply(size_t i, double rate, std::span<const float> gradient, std::span<float> weights) {
  const float decay = decay_[i];
  const float momentum = momentum_;
  const auto step = static_cast<float>(rate);
  float* const velocity = velocity_[i].data();
  for (size_t k = 0; k < weights.size(); ++k) {
    const float direction = gradient[k] + decay * weights[k];
    const float moved = momentum * velocity[k] + direction;
    velocity[k] = moved;
    weights[k] -= step * (nesterov_ ? direction + momentum * moved : moved);
  }
}

}  // namespace millrace::trainer
