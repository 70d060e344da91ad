// The numbers that change with the update (the corrections of the means' zero start) are worked out
// in double, once for a piece; the elements are float32, in the order of PyTorch's operations.

#include "trainer/optimizer/adam.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {
namespace {

class AdamRule final : public UpdateRule {
 public:
  AdamRule(const Adam& adam, bool is_decoupled)
      : beta1_(adam.beta1()),
        beta2_(adam.beta2()),
        epsilon_(adam.epsilon()),
        is_decoupled_(is_decoupled) {}

  std::vector<std::string> slots() const override { return {"adam_m", "adam_v"}; }

  void Apply(const UpdateNumbers& numbers, std::span<const float> gradient,
             std::span<float> weights, std::span<float* const> slots) const override {
    const auto count = static_cast<double>(numbers.count);
    const auto rate = static_cast<float>(numbers.rate / (1 - std::pow(beta1_, count)));
    const auto root = static_cast<float>(std::sqrt(1 - std::pow(beta2_, count)));
    const float decay = is_decoupled_ ? 0 : numbers.weight_decay;
    const auto kept =
        static_cast<float>(is_decoupled_ ? 1 - numbers.rate * numbers.weight_decay : 1);
    const auto part1 = static_cast<float>(1 - beta1_);
    const auto part2 = static_cast<float>(1 - beta2_);
    const auto beta2 = static_cast<float>(beta2_);
    const auto epsilon = static_cast<float>(epsilon_);
    const float scale = numbers.gradient_scale;
    float* const __restrict m = slots[0];
    float* const __restrict v = slots[1];
    float* const __restrict w = weights.data();
    const float* const __restrict g = gradient.data();
    for (size_t k = 0; k < weights.size(); ++k) {
      const float direction = scale * g[k] + decay * w[k];
      m[k] += part1 * (direction - m[k]);
      v[k] = beta2 * v[k] + part2 * direction * direction;
      w[k] = kept * w[k] - rate * m[k] / (std::sqrt(v[k]) / root + epsilon);
    }
  }

  std::string Describe() const override {
    return absl::StrFormat("%s, beta1 %g, beta2 %g, epsilon %g", is_decoupled_ ? "AdamW" : "Adam",
                           beta1_, beta2_, epsilon_);
  }

 private:
  const double beta1_;
  const double beta2_;
  const double epsilon_;
  const bool is_decoupled_;  // true if the weights decay apart from the gradient
};

}  // namespace

std::unique_ptr<UpdateRule> MakeAdam(const OptimizerSpec& spec) {
  return std::make_unique<AdamRule>(spec.adam(), false);
}

std::unique_ptr<UpdateRule> MakeAdamW(const OptimizerSpec& spec) {
  return std::make_unique<AdamRule>(spec.adamw(), true);
}

}  // namespace millrace::trainer
