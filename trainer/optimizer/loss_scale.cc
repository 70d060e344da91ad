#include "trainer/optimizer/loss_scale.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "trainer/job/job.pb.h"
#include "trainer/job/loss_scaling.h"

namespace millrace::trainer {

LossScale BeginLossScale(const LossScaling& spec, const std::optional<LossScale>& saved) {
  if (!spec.has_dynamic()) return {spec.static_(), 0};
  return saved.value_or(LossScale{spec.dynamic().init_scale(), 0});
}

void UpdateLossScale(const LossScaling& spec, bool is_skipped, LossScale& scale) {
  if (!spec.has_dynamic()) return;
  const DynamicLossScale& dynamic = spec.dynamic();
  if (is_skipped) {
    scale = {std::max(1.0, scale.scale * dynamic.backoff_factor()), 0};
  } else if (++scale.good_steps >= dynamic.growth_interval()) {
    scale = {std::min(kLargestLossScale, scale.scale * dynamic.growth_factor()), 0};
  }
}

std::string DescribeLossScaling(const LossScaling& spec) {
  if (!spec.has_dynamic()) return absl::StrFormat("static, %g", spec.static_());
  const DynamicLossScale& dynamic = spec.dynamic();
  return absl::StrFormat("dynamic from %g: times %g after %d steps, times %g at a skipped one",
                         dynamic.init_scale(), dynamic.growth_factor(), dynamic.growth_interval(),
                         dynamic.backoff_factor());
}

}  // namespace millrace::trainer
