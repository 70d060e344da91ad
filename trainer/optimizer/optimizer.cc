#include "trainer/optimizer/optimizer.h"

#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "trainer/job/job.pb.h"
#include "trainer/optimizer/adam.h"
#include "trainer/optimizer/rmsprop.h"
#include "trainer/optimizer/sgd.h"

namespace millrace::trainer {
namespace {

// Another optimizer needs a line here.
struct OptimizerKind {
  OptimizerSpec::KindCase number;
  std::unique_ptr<UpdateRule> (*make)(const OptimizerSpec& spec);
};

constexpr OptimizerKind kKinds[] = {
    {OptimizerSpec::KIND_NOT_SET, MakeSgd},
    {OptimizerSpec::kAdam, MakeAdam},
    {OptimizerSpec::kAdamw, MakeAdamW},
    {OptimizerSpec::kRmsprop, MakeRmsProp},
};

}  // namespace

std::unique_ptr<UpdateRule> MakeUpdateRule(const OptimizerSpec& spec) {
  for (const OptimizerKind& kind : kKinds) {
    if (kind.number == spec.kind_case()) return kind.make(spec);
  }
  return MakeSgd(spec);
}

Slots MakeSlots(const OptimizerSpec& spec, const Model& model) {
  Slots slots;
  for (const std::string& name : MakeUpdateRule(spec)->slots()) {
    slots.push_back({name, MakeZeros(model)});
  }
  return slots;
}

std::string DescribeOptimizer(const OptimizerSpec& spec) {
  return absl::StrFormat("%s, weight decay %g%s", MakeUpdateRule(spec)->Describe(),
                         spec.weight_decay(), spec.decay_bias() ? "" : " (not on biases)");
}

Optimizer::Optimizer(const OptimizerSpec& spec, const Model& model, Slots slots,
                     std::vector<Piece> pieces)
    : rule_(MakeUpdateRule(spec)),
      pieces_(std::move(pieces)),
      slots_(CutSlots(std::move(slots), pieces_)) {
  for (const Piece& piece : pieces_) {
    const bool decays = !model.parameters[piece.parameter].is_bias || spec.decay_bias();
    decay_.push_back(decays ? static_cast<float>(spec.weight_decay()) : 0.0f);
  }
}

void Optimizer::Apply(size_t i, const UpdateStep& update, float scale,
                      std::span<const float> gradient, std::span<float> weights) {
  std::vector<float*> memory;
  for (Slot& slot : slots_) memory.push_back(slot.tensors[i].data());
  rule_->Apply({update.count, update.rate, scale, decay_[i]}, gradient, weights, memory);
}

}  // namespace millrace::trainer
