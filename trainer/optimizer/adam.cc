// The numbers that change with the update (the corrections of the means' zero start) are worked out
// in double, once for a piece; the elements are float32.

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

  UpdateElement ElementOf(const UpdateNumbers& numbers) const override {
    const auto count = static_cast<double>(numbers.count);
    AdamElement element;
    element.scale = numbers.gradient_scale;
    element.decay = is_decoupled_ ? 0 : numbers.weight_decay;
    element.kept = static_cast<float>(is_decoupled_ ? 1 - numbers.rate * numbers.weight_decay : 1);
    element.part1 = static_cast<float>(1 - beta1_);
    element.beta2 = static_cast<float>(beta2_);
    element.part2 = static_cast<float>(1 - beta2_);
    element.root = static_cast<float>(std::sqrt(1 - std::pow(beta2_, count)));
    element.epsilon = static_cast<float>(epsilon_);
    element.rate = static_cast<float>(numbers.rate / (1 - std::pow(beta1_, count)));
    return element;
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
