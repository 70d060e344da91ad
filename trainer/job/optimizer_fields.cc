#include "trainer/job/optimizer_fields.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace millrace::trainer {
namespace {

void CheckSgd(const OptimizerSpec& spec, FieldChecks& checks) {
  const bool inside = spec.has_sgd();
  const std::string twice = "it is a field of sgd {}, which is given: write it there";
  checks.Require(!inside || spec.momentum() == 0, {{"optimizer"}, {"momentum"}}, twice);
  checks.Require(!inside || !spec.nesterov(), {{"optimizer"}, {"nesterov"}}, twice);
  if (inside) {
    const Sgd& sgd = spec.sgd();
    checks.BelowOne(sgd.momentum(), {{"optimizer"}, {"sgd"}, {"momentum"}});
    checks.Require(!sgd.nesterov() || sgd.momentum() > 0, {{"optimizer"}, {"sgd"}, {"nesterov"}},
                   "it needs a momentum");
  } else {
    checks.BelowOne(spec.momentum(), {{"optimizer"}, {"momentum"}});
    checks.Require(!spec.nesterov() || spec.momentum() > 0, {{"optimizer"}, {"nesterov"}},
                   "it needs a momentum");
  }
}

void CheckAdam(const Adam& adam, std::string_view field, FieldChecks& checks) {
  checks.BelowOne(adam.beta1(), {{"optimizer"}, {field}, {"beta1"}});
  checks.BelowOne(adam.beta2(), {{"optimizer"}, {field}, {"beta2"}});
  checks.AtLeastZero(adam.epsilon(), {{"optimizer"}, {field}, {"epsilon"}});
}

void CheckRmsProp(const RmsProp& rmsprop, FieldChecks& checks) {
  checks.BelowOne(rmsprop.alpha(), {{"optimizer"}, {"rmsprop"}, {"alpha"}});
  checks.AtLeastZero(rmsprop.epsilon(), {{"optimizer"}, {"rmsprop"}, {"epsilon"}});
  checks.BelowOne(rmsprop.momentum(), {{"optimizer"}, {"rmsprop"}, {"momentum"}});
}

void CheckLars(const Lars& lars, FieldChecks& checks) {
  checks.BelowOne(lars.momentum(), {{"optimizer"}, {"lars"}, {"momentum"}});
  checks.AtLeastZero(lars.trust_coefficient(), {{"optimizer"}, {"lars"}, {"trust_coefficient"}});
  checks.AtLeastZero(lars.epsilon(), {{"optimizer"}, {"lars"}, {"epsilon"}});
}

// The fields of `sgd` that stand outside of it.
void CheckOthersFields(const OptimizerSpec& spec, std::string_view field, FieldChecks& checks) {
  const std::string why =
      absl::StrCat("it is a field of sgd, but the optimizer is ", std::string(field));
  checks.Require(spec.momentum() == 0, {{"optimizer"}, {"momentum"}}, why);
  checks.Require(!spec.nesterov(), {{"optimizer"}, {"nesterov"}}, why);
}

void CheckKind(const OptimizerSpec& spec, FieldChecks& checks) {
  switch (spec.kind_case()) {
    case OptimizerSpec::kSgd:
    case OptimizerSpec::KIND_NOT_SET:
      return CheckSgd(spec, checks);
    case OptimizerSpec::kAdam:
      CheckAdam(spec.adam(), "adam", checks);
      return CheckOthersFields(spec, "adam", checks);
    case OptimizerSpec::kAdamw:
      CheckAdam(spec.adamw(), "adamw", checks);
      return CheckOthersFields(spec, "adamw", checks);
    case OptimizerSpec::kRmsprop:
      CheckRmsProp(spec.rmsprop(), checks);
      return CheckOthersFields(spec, "rmsprop", checks);
    case OptimizerSpec::kLars:
      CheckLars(spec.lars(), checks);
      return CheckOthersFields(spec, "lars", checks);
  }
}

void FillDefaults(Adam& adam) {
  if (!adam.has_beta1()) adam.set_beta1(0.9);
  if (!adam.has_beta2()) adam.set_beta2(0.999);
  if (!adam.has_epsilon()) adam.set_epsilon(1e-8);
}

void FillDefaults(RmsProp& rmsprop) {
  if (!rmsprop.has_alpha()) rmsprop.set_alpha(0.99);
  if (!rmsprop.has_epsilon()) rmsprop.set_epsilon(1e-8);
}

void FillDefaults(Lars& lars) {
  if (!lars.has_momentum()) lars.set_momentum(0.9);
  if (!lars.has_trust_coefficient()) lars.set_trust_coefficient(0.001);
}

void MoveSgd(OptimizerSpec& spec) {
  const Sgd sgd = spec.sgd();
  spec.clear_sgd();
  spec.set_momentum(sgd.momentum());
  spec.set_nesterov(sgd.nesterov());
}

void CheckSchedule(const OptimizerSpec& spec, FieldChecks& checks) {
  checks.AtLeastZero(spec.base_lr(), {{"optimizer"}, {"base_lr"}});
  checks.AtLeastZero(spec.warmup_epochs(), {{"optimizer"}, {"warmup_epochs"}});
  checks.AtLeastZero(spec.warmup_start_lr(), {{"optimizer"}, {"warmup_start_lr"}});
  checks.AtLeastZero(spec.cosine().end_lr(), {{"optimizer"}, {"cosine"}, {"end_lr"}});
  checks.AtLeastZero(spec.step().factor(), {{"optimizer"}, {"step"}, {"factor"}});
  for (int i = 0; i < spec.step().epoch_size(); ++i) {
    checks.AtLeastZero(spec.step().epoch(i), {{"optimizer"}, {"step"}, {"epoch", i}});
  }
}

void CheckGroup(const ParameterGroup& group, int i, FieldChecks& checks) {
  checks.Require(group.pattern_size() > 0, {{"optimizer"}, {"group", i}}, "it has no pattern");
  checks.AtLeastZero(group.weight_decay(), {{"optimizer"}, {"group", i}, {"weight_decay"}});
  checks.AtLeastZero(group.lr_scale(), {{"optimizer"}, {"group", i}, {"lr_scale"}});
}

}  // namespace

std::optional<BadField> CheckOptimizer(const OptimizerSpec& spec) {
  FieldChecks checks;
  CheckSchedule(spec, checks);
  checks.AtLeastZero(spec.weight_decay(), {{"optimizer"}, {"weight_decay"}});
  CheckKind(spec, checks);
  for (int i = 0; i < spec.group_size(); ++i) {
    CheckGroup(spec.group(i), i, checks);
    checks.Require(!spec.group(i).has_trust() || spec.has_lars(),
                   {{"optimizer"}, {"group", i}, {"trust"}}, "it needs lars");
  }
  return checks.first();
}

void FillDefaults(OptimizerSpec& spec) {
  if (!spec.has_base_lr()) spec.set_base_lr(0.1);
  if (spec.has_sgd()) MoveSgd(spec);
  if (spec.has_adam()) FillDefaults(*spec.mutable_adam());
  if (spec.has_adamw()) FillDefaults(*spec.mutable_adamw());
  if (spec.has_rmsprop()) FillDefaults(*spec.mutable_rmsprop());
  if (spec.has_lars()) FillDefaults(*spec.mutable_lars());
}

}  // namespace millrace::trainer
