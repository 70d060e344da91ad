#include "trainer/optimizer/rmsprop.h"

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

  UpdateElement ElementOf(const UpdateNumbers& numbers) const override {
    if (momentum_ > 0) {
      return centered_ ? UpdateElement(Make<true, true>(numbers)) : Make<true, false>(numbers);
    }
    return centered_ ? UpdateElement(Make<false, true>(numbers)) : Make<false, false>(numbers);
  }

  std::string Describe() const override {
    return absl::StrFormat("RMSProp, alpha %g, epsilon %g, momentum %g%s", alpha_, epsilon_,
                           momentum_, centered_ ? ", centered" : "");
  }

 private:
  template <bool kMomentum, bool kCentered>
  RmsPropElement<kMomentum, kCentered> Make(const UpdateNumbers& numbers) const {
    RmsPropElement<kMomentum, kCentered> element;
    element.scale = numbers.gradient_scale;
    element.decay = numbers.weight_decay;
    element.alpha = static_cast<float>(alpha_);
    element.part = static_cast<float>(1 - alpha_);
    element.epsilon = static_cast<float>(epsilon_);
    element.momentum = static_cast<float>(momentum_);
    element.rate = static_cast<float>(numbers.rate);
    return element;
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
