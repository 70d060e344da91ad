#include "trainer/job/optimizer_fields.h"

#include <string>

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

}  // namespace

std::optional<BadField> CheckOptimizer(const OptimizerSpec& spec) {
  FieldChecks checks;
  CheckSchedule(spec, checks);
  checks.AtLeastZero(spec.weight_decay(), {{"optimizer"}, {"weight_decay"}});
  CheckSgd(spec, checks);
  return checks.first();
}

void FillDefaults(OptimizerSpec& spec) {
  if (!spec.has_base_lr()) spec.set_base_lr(0.1);
  if (spec.has_sgd()) {
    const Sgd sgd = spec.sgd();
    spec.clear_sgd();
    spec.set_momentum(sgd.momentum());
    spec.set_nesterov(sgd.nesterov());
  }
}

}  // namespace millrace::trainer
