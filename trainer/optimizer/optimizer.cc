#include "trainer/optimizer/optimizer.h"

#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "trainer/job/job.pb.h"
#include "trainer/optimizer/adam.h"
#include "trainer/optimizer/lars.h"
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
    {OptimizerSpec::KIND_NOT_SET, MakeSgd}, {OptimizerSpec::kAdam, MakeAdam},
    {OptimizerSpec::kAdamw, MakeAdamW},     {OptimizerSpec::kRmsprop, MakeRmsProp},
    {OptimizerSpec::kLars, MakeLars},
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
                         spec.weight_decay(),
                         spec.decay_bias() ? "" : " (not on biases and norms)");
}

Optimizer::Optimizer(const OptimizerSpec& spec, const Model& model, Slots slots,
                     std::vector<Piece> pieces)
    : rule_(MakeUpdateRule(spec)),
      pieces_(std::move(pieces)),
      slots_(CutSlots(std::move(slots), pieces_)) {
  const std::vector<ParameterSettings> settings = SettingsOf(spec, model);
  for (const Piece& piece : pieces_) settings_.push_back(settings[piece.parameter]);
}

bool Optimizer::wants_norms(size_t i) const {
  return has_norms() && settings_[i].trust && !settings_[i].frozen;
}

void Optimizer::Apply(size_t i, const UpdateStep& update, float scale,
                      std::span<const float> gradient, std::span<float> weights, size_t begin) {
  const ParameterSettings& settings = settings_[i];
  if (settings.frozen) return;
  std::array<float*, kMaxSlots> memory = {};
  for (size_t s = 0; s < slots_.size(); ++s) memory[s] = slots_[s].tensors[i].data() + begin;
  UpdateNumbers numbers = {update.count, update.rate * settings.lr_scale, scale,
                           settings.weight_decay, std::nullopt};
  if (wants_norms(i)) {
    const ParameterNorms& norms = norms_[pieces_[i].parameter];
    numbers.norms = {norms.weights, scale * norms.gradient};
  }
  UpdateElements(rule_->ElementOf(numbers), gradient, weights,
                 std::span(memory).first(slots_.size()));
}

}  // namespace millrace::trainer
