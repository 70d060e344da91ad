// Linear scaling and gradual warm-up follow Goyal et al. 2017, "Accurate, Large Minibatch SGD",
// sections 2.1 and 2.2.

#include "trainer/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {
namespace {

// The step at which `epochs` epochs are over; saturates far beyond any job.
uint64_t StepsOf(double epochs, uint64_t steps_per_epoch) {
  const double steps = std::round(epochs * static_cast<double>(steps_per_epoch));
  return static_cast<uint64_t>(std::min(steps, 1e18));
}

}  // namespace

Schedule Schedule::Make(const OptimizerSpec& optimizer, uint64_t global_batch,
                        uint64_t steps_per_epoch, uint64_t total_steps) {
  Schedule schedule;
  schedule.full_rate_ = optimizer.has_base_lr() ? optimizer.base_lr() : 0.1;
  if (optimizer.base_batch() > 0) {
    schedule.full_rate_ *= static_cast<double>(global_batch) / optimizer.base_batch();
  }
  schedule.warmup_start_ = optimizer.warmup_start_lr();
  schedule.warmup_steps_ =
      optimizer.warmup_steps() + StepsOf(optimizer.warmup_epochs(), steps_per_epoch);
  schedule.total_steps_ = total_steps;
  if (optimizer.has_cosine()) {
    schedule.decay_ = Decay::kCosine;
    schedule.end_rate_ = optimizer.cosine().end_lr();
  } else if (optimizer.has_step()) {
    schedule.decay_ = Decay::kStep;
    schedule.factor_ = optimizer.step().has_factor() ? optimizer.step().factor() : 0.1;
    for (double epoch : optimizer.step().epoch()) {
      schedule.drops_.push_back(StepsOf(epoch, steps_per_epoch));
    }
  }
  return schedule;
}

double Schedule::RateAt(uint64_t step) const {
  if (step < warmup_steps_) {
    const double part = static_cast<double>(step + 1) / static_cast<double>(warmup_steps_);
    return warmup_start_ + (full_rate_ - warmup_start_) * part;
  }
  switch (decay_) {
    case Decay::kNone:
      return full_rate_;
    case Decay::kStep: {
      const auto drops = std::count_if(drops_.begin(), drops_.end(),
                                       [step](uint64_t drop) { return drop <= step; });
      return full_rate_ * std::pow(factor_, static_cast<double>(drops));
    }
    case Decay::kCosine:
      break;
  }
  if (total_steps_ <= warmup_steps_ || step >= total_steps_) return end_rate_;
  const double part =
      static_cast<double>(step - warmup_steps_) / static_cast<double>(total_steps_ - warmup_steps_);
  return end_rate_ + (full_rate_ - end_rate_) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

std::string Schedule::Describe() const {
  std::string text = warmup_steps_ == 0 ? std::string("no warm-up")
                                        : absl::StrCat("linear warm-up over ", warmup_steps_,
                                                       " steps from ", warmup_start_);
  switch (decay_) {
    case Decay::kNone:
      return text + ", then constant";
    case Decay::kCosine:
      return absl::StrCat(text, ", then cosine to ", end_rate_);
    case Decay::kStep:
      break;
  }
  absl::StrAppend(&text, ", then times ", factor_, " at steps");
  for (uint64_t drop : drops_) absl::StrAppend(&text, " ", drop);
  return text;
}

}  // namespace millrace::trainer
