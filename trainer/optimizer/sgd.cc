#include "trainer/optimizer/sgd.h"

#include "absl/strings/str_format.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {
namespace {

class SgdRule final : public UpdateRule {
 public:
  SgdRule(double momentum, bool nesterov)
      : momentum_(static_cast<float>(momentum)), nesterov_(nesterov) {}

  std::vector<std::string> slots() const override { return {"momentum"}; }

  void Apply(const UpdateNumbers& numbers, std::span<const float> gradient,
             std::span<float> weights, std::span<float* const> slots) const override {
    const float momentum = momentum_;
    const auto rate = static_cast<float>(numbers.rate);
    float* const velocity = slots[0];
    for (size_t k = 0; k < weights.size(); ++k) {
      const float direction =
          numbers.gradient_scale * gradient[k] + numbers.weight_decay * weights[k];
      const float moved = momentum * velocity[k] + direction;
      velocity[k] = moved;
      weights[k] -= rate * (nesterov_ ? direction + momentum * moved : moved);
    }
  }

  std::string Describe() const override {
    return absl::StrFormat("SGD, momentum %g%s", momentum_, nesterov_ ? " (Nesterov)" : "");
  }

 private:
  const float momentum_;
  const bool nesterov_;  // true for momentum of Nesterov's kind
};

}  // namespace

std::unique_ptr<UpdateRule> MakeSgd(const OptimizerSpec& spec) {
  return std::make_unique<SgdRule>(spec.momentum(), spec.nesterov());
}

}  // namespace millrace::trainer
