// Linear scaling and gradual warm-up follow Goyal et al. 2017, "Accurate, Large Minibatch SGD",
// sections 2.1 and 2.2.

#include "trainer/optimizer/schedule.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {
namespace {

double FullRate(const OptimizerSpec& optimizer, uint64_t global_batch) {
  if (optimizer.base_batch() == 0) return optimizer.base_lr();
  const double factor = static_cast<double>(global_batch) / optimizer.base_batch();
  return optimizer.base_lr() *
         (optimizer.scaling() == ScalingRule::SQUARE_ROOT ? std::sqrt(factor) : factor);
}

}  // namespace

Schedule Schedule::Make(const OptimizerSpec& optimizer, uint64_t global_batch,
                        uint64_t steps_per_epoch, uint64_t total_steps) {
  Schedule schedule;
  schedule.full_rate_ = FullRate(optimizer, global_batch);
  schedule.warmup_start_ = optimizer.warmup_start_lr();
  schedule.warmup_steps_ =
      optimizer.warmup_steps() + StepsOfEpochs(optimizer.warmup_epochs(), steps_per_epoch);
  schedule.curve_ = MakeRateCurve(
      optimizer, {schedule.full_rate_, schedule.warmup_steps_, steps_per_epoch, total_steps});
  return schedule;
}

double Schedule::RateAt(uint64_t step) const {
  if (step >= warmup_steps_) return curve_->RateAt(step);
  const double part = static_cast<double>(step + 1) / static_cast<double>(warmup_steps_);
  return warmup_start_ + (full_rate_ - warmup_start_) * part;
}

std::string Schedule::Describe() const {
  const std::string warmup =
      warmup_steps_ == 0
          ? std::string("no warm-up")
          : absl::StrCat("linear warm-up over ", warmup_steps_, " steps from ", warmup_start_);
  return absl::StrCat(warmup, ", then ", curve_->Describe());
}

}  // namespace millrace::trainer
