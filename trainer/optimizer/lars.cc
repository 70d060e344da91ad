#include "trainer/optimizer/lars.h"

#include <optional>

#include "absl/strings/str_format.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {
namespace {

class LarsRule final : public UpdateRule {
 public:
  explicit LarsRule(const Lars& lars)
      : momentum_(static_cast<float>(lars.momentum())),
        trust_{lars.trust_coefficient(), lars.epsilon()} {}

  std::vector<std::string> slots() const override { return {"momentum"}; }
  std::optional<TrustRule> trust() const override { return trust_; }

  UpdateElement ElementOf(const UpdateNumbers& numbers) const override {
    LarsElement element;
    element.scale = numbers.gradient_scale;
    element.decay = numbers.weight_decay;
    element.momentum = momentum_;
    element.rate = static_cast<float>(numbers.rate);
    if (numbers.norms) {
      const ParameterNorms& norms = *numbers.norms;
      element.trust = trust_.Ratio(norms.weights, norms.gradient, numbers.weight_decay);
    }
    return element;
  }

  std::string Describe() const override {
    return absl::StrFormat("LARS, momentum %g, trust coefficient %g, epsilon %g", momentum_,
                           trust_.coefficient, trust_.epsilon);
  }

 private:
  const float momentum_;
  const TrustRule trust_;
};

}  // namespace

std::unique_ptr<UpdateRule> MakeLars(const OptimizerSpec& spec) {
  return std::make_unique<LarsRule>(spec.lars());
}

}  // namespace millrace::trainer
