#ifndef MILLRACE_TRAINER_OPTIMIZER_SCHEDULE_H_
#define MILLRACE_TRAINER_OPTIMIZER_SCHEDULE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/optimizer/rate_curve.h"

namespace millrace::trainer {

class OptimizerSpec;  // job.proto

// The learning rate as a pure function of the step. Immutable.
class Schedule {
 public:
  // Works the rate out for a job of `total_steps` steps with `steps_per_epoch` of them per epoch
  // and `global_batch` samples per step. `optimizer` is checked (trainer/job/optimizer_fields.h).
  static Schedule Make(const OptimizerSpec& optimizer, uint64_t global_batch,
                       uint64_t steps_per_epoch, uint64_t total_steps);

  // The rate of step `step`, from 0.
  double RateAt(uint64_t step) const;

  double full_rate() const { return full_rate_; }  // after scaling and warm-up
  uint64_t warmup_steps() const { return warmup_steps_; }
  // "linear warm-up over 235 steps, then cosine to 0".
  std::string Describe() const;

 private:
  double full_rate_ = 0;
  double warmup_start_ = 0;
  uint64_t warmup_steps_ = 0;
  std::shared_ptr<const RateCurve> curve_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_SCHEDULE_H_
