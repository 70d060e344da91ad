#include "trainer/job/optimizer_fields.h"

#include <cmath>
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

void CheckPolynomial(const PolynomialDecay& polynomial, FieldChecks& checks) {
  checks.AtLeastZero(polynomial.power(), {{"optimizer"}, {"polynomial"}, {"power"}});
  checks.AtLeastZero(polynomial.end_lr(), {{"optimizer"}, {"polynomial"}, {"end_lr"}});
}

void CheckExponential(const ExponentialDecay& decay, FieldChecks& checks) {
  checks.AboveZero(decay.factor(), {{"optimizer"}, {"exponential"}, {"factor"}});
  checks.AboveZero(decay.has_epochs() ? decay.epochs() : 1,
                   {{"optimizer"}, {"exponential"}, {"epochs"}});
}

void CheckRestarts(const CosineRestarts& restarts, FieldChecks& checks) {
  checks.AboveZero(restarts.epochs(), {{"optimizer"}, {"cosine_restarts"}, {"epochs"}});
  const double multiplier = restarts.has_multiplier() ? restarts.multiplier() : 1;
  checks.Require(std::isfinite(multiplier) && multiplier >= 1,
                 {{"optimizer"}, {"cosine_restarts"}, {"multiplier"}},
                 absl::StrCat(multiplier, " must be 1 or more"));
  checks.AtLeastZero(restarts.end_lr(), {{"optimizer"}, {"cosine_restarts"}, {"end_lr"}});
}

void CheckOneCycle(const OptimizerSpec& spec, FieldChecks& checks) {
  const OneCycle& cycle = spec.one_cycle();
  const bool warms_up = spec.warmup_epochs() > 0 || spec.warmup_steps() > 0;
  checks.Require(!warms_up, {{"optimizer"}, {"one_cycle"}}, "it goes with no other warm-up");
  const double start = cycle.has_pct_start() ? cycle.pct_start() : 0.3;
  checks.Require(start > 0 && start < 1, {{"optimizer"}, {"one_cycle"}, {"pct_start"}},
                 absl::StrCat(start, " must be in (0, 1)"));
  checks.AboveZero(cycle.has_div_factor() ? cycle.div_factor() : 1,
                   {{"optimizer"}, {"one_cycle"}, {"div_factor"}});
  checks.AboveZero(cycle.has_final_div_factor() ? cycle.final_div_factor() : 1,
                   {{"optimizer"}, {"one_cycle"}, {"final_div_factor"}});
}

void FillDefaults(OneCycle& cycle) {
  if (!cycle.has_pct_start()) cycle.set_pct_start(0.3);
  if (!cycle.has_div_factor()) cycle.set_div_factor(25);
  if (!cycle.has_final_div_factor()) cycle.set_final_div_factor(1e4);
}

void FillScheduleDefaults(OptimizerSpec& spec) {
  if (!spec.has_base_lr()) spec.set_base_lr(0.1);
  if (spec.has_polynomial() && !spec.polynomial().has_power()) {
    spec.mutable_polynomial()->set_power(1);
  }
  if (spec.has_exponential() && !spec.exponential().has_epochs()) {
    spec.mutable_exponential()->set_epochs(1);
  }
  if (spec.has_cosine_restarts() && !spec.cosine_restarts().has_multiplier()) {
    spec.mutable_cosine_restarts()->set_multiplier(1);
  }
  if (spec.has_one_cycle()) FillDefaults(*spec.mutable_one_cycle());
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
  checks.Require(spec.scaling() == LINEAR || spec.base_batch() > 0, {{"optimizer"}, {"scaling"}},
                 "it needs a base_batch");
  if (spec.has_polynomial()) CheckPolynomial(spec.polynomial(), checks);
  if (spec.has_exponential()) CheckExponential(spec.exponential(), checks);
  if (spec.has_cosine_restarts()) CheckRestarts(spec.cosine_restarts(), checks);
  if (spec.has_one_cycle()) CheckOneCycle(spec, checks);
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
  checks.BelowOne(spec.ema().decay(), {{"optimizer"}, {"ema"}, {"decay"}});
  for (int i = 0; i < spec.group_size(); ++i) {
    CheckGroup(spec.group(i), i, checks);
    checks.Require(!spec.group(i).has_trust() || spec.has_lars(),
                   {{"optimizer"}, {"group", i}, {"trust"}}, "it needs lars");
  }
  return checks.first();
}

void FillDefaults(OptimizerSpec& spec) {
  FillScheduleDefaults(spec);
  if (spec.has_sgd()) MoveSgd(spec);
  if (spec.has_ema() && !spec.ema().has_decay()) spec.mutable_ema()->set_decay(0.9999);
  if (spec.has_adam()) FillDefaults(*spec.mutable_adam());
  if (spec.has_adamw()) FillDefaults(*spec.mutable_adamw());
  if (spec.has_rmsprop()) FillDefaults(*spec.mutable_rmsprop());
  if (spec.has_lars()) FillDefaults(*spec.mutable_lars());
}

bool NeedsEnd(const OptimizerSpec& spec) {
  return spec.has_cosine() || spec.has_polynomial() || spec.has_one_cycle();
}

}  // namespace millrace::trainer
