#include "trainer/job/loss_scaling.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "trainer/job/servers.h"

namespace millrace::trainer {
namespace {

bool IsPowerOfTwo(double value) {
  int exponent = 0;
  return std::isfinite(value) && std::frexp(value, &exponent) == 0.5;
}

void CheckScale(double scale, FieldChecks::Path path, FieldChecks& checks) {
  checks.Require(IsPowerOfTwo(scale) && scale >= 1 && scale <= kLargestLossScale, path,
                 absl::StrCat(scale, " is no power of two from 1 to 2^24"));
}

void CheckDynamic(const DynamicLossScale& spec, FieldChecks& checks) {
  if (spec.has_init_scale()) {
    CheckScale(spec.init_scale(), {{"loss_scaling"}, {"dynamic"}, {"init_scale"}}, checks);
  }
  const double growth = spec.growth_factor();
  checks.Require(!spec.has_growth_factor() || (IsPowerOfTwo(growth) && growth > 1),
                 {{"loss_scaling"}, {"dynamic"}, {"growth_factor"}},
                 absl::StrCat(growth, " is no power of two over 1"));
  const double backoff = spec.backoff_factor();
  checks.Require(!spec.has_backoff_factor() || (IsPowerOfTwo(backoff) && backoff < 1),
                 {{"loss_scaling"}, {"dynamic"}, {"backoff_factor"}},
                 absl::StrCat(backoff, " is no power of two below 1"));
  checks.Require(!spec.has_growth_interval() || spec.growth_interval() > 0,
                 {{"loss_scaling"}, {"dynamic"}, {"growth_interval"}}, "0 must be 1 or more");
}

}  // namespace

std::optional<BadField> CheckLossScaling(const Job& job) {
  if (!job.has_loss_scaling()) return std::nullopt;
  const LossScaling& spec = job.loss_scaling();
  FieldChecks checks;
  const auto refuse = [&checks](bool refused, const std::string& why) {
    checks.Require(!refused, {{"loss_scaling"}}, why);
  };
  refuse(spec.kind_case() == LossScaling::KIND_NOT_SET, "it is either static or dynamic");
  refuse(job.has_adversarial(), "an adversarial job skips no step");
  refuse(UsesServers(job), absl::StrCat("it does not go with ", kServersField));
  refuse(spec.has_dynamic() && job.reduction().stale_steps() > 0,
         "a dynamic one does not go with reduction.stale_steps");
  if (spec.has_static_()) CheckScale(spec.static_(), {{"loss_scaling"}, {"static"}}, checks);
  if (spec.has_dynamic()) CheckDynamic(spec.dynamic(), checks);
  return checks.first();
}

void FillDefaults(LossScaling& spec) {
  if (!spec.has_dynamic()) return;
  DynamicLossScale& dynamic = *spec.mutable_dynamic();
  if (!dynamic.has_init_scale()) dynamic.set_init_scale(65536);
  if (!dynamic.has_growth_factor()) dynamic.set_growth_factor(2);
  if (!dynamic.has_backoff_factor()) dynamic.set_backoff_factor(0.5);
  if (!dynamic.has_growth_interval()) dynamic.set_growth_interval(2000);
}

}  // namespace millrace::trainer
