#include "trainer/job/adversarial.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "trainer/job/optimizer_fields.h"

namespace millrace::trainer {
namespace {

std::optional<BadField> CheckModel(const AdversarialModel& model, std::string_view role) {
  if (model.model().empty()) {
    return BadField{{{"adversarial"}, {role}, {"model"}}, "no file is given"};
  }
  std::optional<BadField> bad = CheckOptimizer(model.optimizer());
  if (bad) bad->path.insert(bad->path.begin(), {{"adversarial"}, {role}});
  return bad;
}

// The fields of a job that have no meaning for two models.
void CheckOthers(const Job& job, FieldChecks& checks) {
  checks.Require(job.model().empty(), {{"model"}}, "adversarial names the models");
  checks.Require(job.eval().empty(), {{"eval"}}, "an adversarial job has no accuracy to measure");
  checks.Require(job.reduction().stale_steps() == 0, {{"reduction"}, {"stale_steps"}},
                 "an adversarial job waits for its sums");
  checks.Require(!job.reduction().skip_non_finite(), {{"reduction"}, {"skip_non_finite"}},
                 "an adversarial job skips no step");
  checks.Require(!job.strategy().has_parameter_server(), {{"strategy"}, {"parameter_server"}},
                 "the ranks of an adversarial job go in step");
}

}  // namespace

std::optional<BadField> CheckAdversarial(const Job& job) {
  if (!job.has_adversarial()) return std::nullopt;
  const Adversarial& adversarial = job.adversarial();
  if (auto bad = CheckModel(adversarial.generator(), "generator")) return bad;
  if (auto bad = CheckModel(adversarial.discriminator(), "discriminator")) return bad;
  FieldChecks checks;
  const double label = adversarial.real_label();
  checks.Require(label >= 0 && label <= 1, {{"adversarial"}, {"real_label"}},
                 absl::StrCat(label, " must be from 0 to 1"));
  checks.BelowOne(adversarial.flip_probability(), {{"adversarial"}, {"flip_probability"}});
  CheckOthers(job, checks);
  return checks.first();
}

void FillDefaults(const OptimizerSpec& optimizer, Adversarial& adversarial) {
  if (!adversarial.has_real_label()) adversarial.set_real_label(1);
  for (AdversarialModel* const model :
       {adversarial.mutable_generator(), adversarial.mutable_discriminator()}) {
    if (!model->has_optimizer()) *model->mutable_optimizer() = optimizer;
    FillDefaults(*model->mutable_optimizer());
  }
}

}  // namespace millrace::trainer
