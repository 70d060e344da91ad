#include "trainer/optimizer/sgd.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {

std::vector<Piece> WholeParameters(const Model& model) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    pieces.push_back({i, 0, static_cast<size_t>(model.parameters[i].shape.num_elements())});
  }
  return pieces;
}

absl::StatusOr<Sgd> Sgd::Make(const Optimizer& optimizer, const Model& model, TensorSet velocity,
                              std::vector<Piece> pieces) {
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
  for (const Piece& piece : pieces) {
    const bool decays = !model.parameters[piece.parameter].is_bias || optimizer.decay_bias();
    sgd.decay_.push_back(decays ? static_cast<float>(optimizer.weight_decay()) : 0.0f);
    std::vector<float>& whole = velocity[piece.parameter];
    if (piece.begin == 0 && piece.end == whole.size()) {
      sgd.velocity_.push_back(std::move(whole));
    } else {
      sgd.velocity_.emplace_back(whole.begin() + static_cast<ptrdiff_t>(piece.begin),
                                 whole.begin() + static_cast<ptrdiff_t>(piece.end));
    }
  }
  sgd.pieces_ = std::move(pieces);
  return sgd;
}

void Sgd::Apply(size_t i, double rate, float scale, std::span<const float> gradient,
                std::span<float> weights) {
  const float decay = decay_[i];
  const float momentum = momentum_;
  const auto step = static_cast<float>(rate);
  float* const velocity = velocity_[i].data();
  for (size_t k = 0; k < weights.size(); ++k) {
    const float direction = scale * gradient[k] + decay * weights[k];
    const float moved = momentum * velocity[k] + direction;
    velocity[k] = moved;
    weights[k] -= step * (nesterov_ ? direction + momentum * moved : moved);
  }
}

}  // namespace millrace::trainer
