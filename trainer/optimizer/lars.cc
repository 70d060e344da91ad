#include "trainer/optimizer/lars.h"

#include "absl/strings/str_format.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {
namespace {

class LarsRule final : public UpdateRule {
 public:
  explicit LarsRule(const Lars& lars)
      : momentum_(static_cast<float>(lars.momentum())),
        coefficient_(lars.trust_coefficient()),
        epsilon_(lars.epsilon()) {}

  std::vector<std::string> slots() const override { return {"momentum"}; }
  bool wants_norms() const override { return true; }

  void Apply(const UpdateNumbers& numbers, std::span<const float> gradient,
             std::span<float> weights, std::span<float* const> slots) const override {
    const float trust = TrustRatio(numbers);
    const auto rate = static_cast<float>(numbers.rate);
    const float momentum = momentum_;
    float* const velocity = slots[0];
    for (size_t k = 0; k < weights.size(); ++k) {
      const float direction =
          numbers.gradient_scale * gradient[k] + numbers.weight_decay * weights[k];
      const float moved = momentum * velocity[k] + trust * direction;
      velocity[k] = moved;
      weights[k] -= rate * moved;
    }
  }

  std::string Describe() const override {
    return absl::StrFormat("LARS, momentum %g, trust coefficient %g, epsilon %g", momentum_,
                           coefficient_, epsilon_);
  }

 private:
  float TrustRatio(const UpdateNumbers& numbers) const {
    if (!numbers.norms || numbers.norms->weights == 0 || numbers.norms->gradient == 0) return 1;
    const double length =
        numbers.norms->gradient + double{numbers.weight_decay} * numbers.norms->weights + epsilon_;
    return static_cast<float>(coefficient_ * numbers.norms->weights / length);
  }

  const float momentum_;
  const double coefficient_;
  const double epsilon_;
};

}  // namespace

std::unique_ptr<UpdateRule> MakeLars(const OptimizerSpec& spec) {
  return std::make_unique<LarsRule>(spec.lars());
}

}  // namespace millrace::trainer
