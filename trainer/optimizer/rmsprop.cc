#include "trainer/optimizer/rmsprop.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {
namespace {

class RmsPropRule final : public UpdateRule {
 public:
  explicit RmsPropRule(const RmsProp& rmsprop)
      : alpha_(rmsprop.alpha()),
        epsilon_(rmsprop.epsilon()),
        momentum_(rmsprop.momentum()),
        centered_(rmsprop.centered()) {}

  std::vector<std::string> slots() const override {
    std::vector<std::string> names = {"rmsprop_v"};
    if (momentum_ > 0) names.push_back("momentum");
    if (centered_) names.push_back("rmsprop_g");
    return names;
  }

  void Apply(const UpdateNumbers& numbers, std::span<const float> gradient,
             std::span<float> weights, std::span<float* const> slots) const override {
    if (centered_) {
      Run<true>(numbers, gradient, weights, slots);
    } else {
      Run<false>(numbers, gradient, weights, slots);
    }
  }

  std::string Describe() const override {
    return absl::StrFormat("RMSProp, alpha %g, epsilon %g, momentum %g%s", alpha_, epsilon_,
                           momentum_, centered_ ? ", centered" : "");
  }

 private:
  template <bool kCentered>
  void Run(const UpdateNumbers& numbers, std::span<const float> gradient, std::span<float> weights,
           std::span<float* const> slots) const {
    const auto rate = static_cast<float>(numbers.rate);
    const auto alpha = static_cast<float>(alpha_);
    const auto part = static_cast<float>(1 - alpha_);
    const auto epsilon = static_cast<float>(epsilon_);
    const auto momentum = static_cast<float>(momentum_);
    float* const square = slots[0];
    float* const buffer = momentum_ > 0 ? slots[1] : nullptr;
    float* const mean = kCentered ? slots.back() : nullptr;
    for (size_t k = 0; k < weights.size(); ++k) {
      const float direction =
          numbers.gradient_scale * gradient[k] + numbers.weight_decay * weights[k];
      square[k] = alpha * square[k] + part * direction * direction;
      float variance = square[k];
      if constexpr (kCentered) {
        mean[k] += part * (direction - mean[k]);
        variance = std::max(variance - mean[k] * mean[k], 0.0f);  // below 0 by rounding alone
      }
      float move = direction / (std::sqrt(variance) + epsilon);
      if (buffer != nullptr) move = buffer[k] = momentum * buffer[k] + move;
      weights[k] -= rate * move;
    }
  }

  const double alpha_;
  const double epsilon_;
  const double momentum_;
  const bool centered_;  // true if the square is replaced by the variance
};

}  // namespace

std::unique_ptr<UpdateRule> MakeRmsProp(const OptimizerSpec& spec) {
  return std::make_unique<RmsPropRule>(spec.rmsprop());
}

}  // namespace millrace::trainer
