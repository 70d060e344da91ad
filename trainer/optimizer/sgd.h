#ifndef MILLRACE_TRAINER_OPTIMIZER_SGD_H_
#define MILLRACE_TRAINER_OPTIMIZER_SGD_H_

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {

class Optimizer;  // job.proto

// Elements [begin, end) of a parameter.
struct Piece {
  size_t parameter = 0;
  size_t begin = 0;
  size_t end = 0;
};

// Each parameter as one piece.
std::vector<Piece> WholeParameters(const Model& model);

// Stochastic gradient descent with momentum and weight decay, one fused pass per piece:
//   d = scale * g + decay * w
//   v = momentum * v + d
//   w -= rate * v   (nesterov: w -= rate * (d + momentum * v))
// The rate stays outside the momentum, so a changing rate needs no correction (Goyal et al. 2017,
// section 3). Thread-compatible.
class Sgd {
 public:
  // Updates only `pieces` and keeps only their state. `velocity`, of all parameters, is zeros or a
  // checkpoint's.
  //   INVALID_ARGUMENT  a number is out of range; the text names the field
  static absl::StatusOr<Sgd> Make(const Optimizer& optimizer, const Model& model,
                                  TensorSet velocity, std::vector<Piece> pieces);
  // Updates all parameters: piece i is parameter i.
  static absl::StatusOr<Sgd> Make(const Optimizer& optimizer, const Model& model,
                                  TensorSet velocity) {
    return Make(optimizer, model, std::move(velocity), WholeParameters(model));
  }

  // Applies `gradient`, each element times `scale`, to `weights`, both of piece `i`.
  void Apply(size_t i, double rate, float scale, std::span<const float> gradient,
             std::span<float> weights);

  const std::vector<Piece>& pieces() const { return pieces_; }
  // The momentum, by piece.
  const TensorSet& velocity() const { return velocity_; }

 private:
  Sgd() = default;

  float momentum_ = 0;
  bool nesterov_ = false;  // true for momentum of Nesterov's kind
  std::vector<Piece> pieces_;
  std::vector<float> decay_;  // by piece
  TensorSet velocity_;        // by piece
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_SGD_H_
