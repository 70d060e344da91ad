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

  UpdateElement ElementOf(const UpdateNumbers& numbers) const override {
    return nesterov_ ? UpdateElement(Make<true>(numbers)) : Make<false>(numbers);
  }

  std::string Describe() const override {
    return absl::StrFormat("SGD, momentum %g%s", momentum_, nesterov_ ? " (Nesterov)" : "");
  }

 private:
  template <bool kNesterov>
  SgdElement<kNesterov> Make(const UpdateNumbers& numbers) const {
    return {numbers.gradient_scale, numbers.weight_decay, momentum_,
            static_cast<float>(numbers.rate)};
  }

  const float momentum_;
  const bool nesterov_;  // true for momentum of Nesterov's kind
};

}  // namespace

std::unique_ptr<UpdateRule> MakeSgd(const OptimizerSpec& spec) {
  return std::make_unique<SgdRule>(spec.momentum(), spec.nesterov());
}

}  // namespace millrace::trainer
