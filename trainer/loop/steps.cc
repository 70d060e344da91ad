#include "trainer/loop/steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::trainer {
namespace {

constexpr uint64_t kMaxSteps = uint64_t{1} << 53;  // counted in doubles too

uint64_t DivideUp(uint64_t a, uint64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

absl::Status CheckSaysEnough(const Job& job, const pipeline::StreamLength& length) {
  if (job.steps_per_epoch() == 0 && length.batches_per_epoch == 0) {
    return absl::InvalidArgumentError(
        length.known ? "batches straddle epochs here, so the job must say steps_per_epoch"
                     : "how many batches there are is not known before the end (a filter, unbatch "
                       "or buckets), so the job must say steps_per_epoch");
  }
  if (job.epochs() == 0 && (length.infinite || !length.known)) {
    return absl::InvalidArgumentError(
        length.infinite ? "the pipeline repeats for ever, so the job must say how many epochs"
                        : "how many batches there are is not known before the end, so the job "
                          "must say how many epochs");
  }
  return absl::OkStatus();
}

// The steps of a job that gives no number of epochs: all steps of a stream that ends.
uint64_t StepsOf(const StepPlan& plan, uint64_t batches) {
  if (plan.epoch_batches == 0) return batches / plan.accumulate;
  return batches / plan.epoch_batches * plan.steps_per_epoch +
         DivideUp(batches % plan.epoch_batches, plan.accumulate);
}

absl::Status CheckEnoughBatches(const StepPlan& plan, const Job& job,
                                const pipeline::StreamLength& length) {
  if (length.infinite || !length.known || job.epochs() == 0) return absl::OkStatus();
  const uint64_t epoch =
      plan.epoch_batches > 0 ? plan.epoch_batches : plan.steps_per_epoch * plan.accumulate;
  if (length.batches / epoch >= job.epochs()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the pipeline ends after ", length.batches, " batches, but ", job.epochs(), " epochs are ",
      plan.total_steps, " steps",
      plan.accumulate > 1 ? absl::StrCat(" of ", plan.accumulate, " batches") : std::string(),
      "; add repeat {} to it"));
}

}  // namespace

uint64_t StepPlan::BatchesOf(uint64_t step) const {
  if (epoch_batches == 0) return accumulate;
  const uint64_t begin = step % steps_per_epoch * accumulate;
  uint64_t left = epoch_batches - begin;
  if (stream_batches > 0) {
    left = std::min(left, stream_batches - step / steps_per_epoch * epoch_batches - begin);
  }
  return std::min(accumulate, left);
}

absl::StatusOr<StepPlan> PlanSteps(const Job& job, const pipeline::StreamLength& length) {
  MILLRACE_RETURN_IF_ERROR(CheckSaysEnough(job, length));
  StepPlan plan;
  plan.accumulate = job.reduction().accumulate_steps();
  if (job.steps_per_epoch() > 0) {
    plan.steps_per_epoch = job.steps_per_epoch();
  } else {
    plan.epoch_batches = length.batches_per_epoch;
    plan.accumulate = std::min(plan.accumulate, plan.epoch_batches);
    plan.steps_per_epoch = DivideUp(plan.epoch_batches, plan.accumulate);
  }
  if (job.epochs() == 0) {
    plan.stream_batches = length.batches;
    plan.total_steps = StepsOf(plan, length.batches);
  } else if (__builtin_mul_overflow(job.epochs(), plan.steps_per_epoch, &plan.total_steps) ||
             plan.total_steps > kMaxSteps / plan.accumulate) {
    return absl::InvalidArgumentError(absl::StrCat(
        job.epochs(), " epochs of ", plan.steps_per_epoch, " steps are more than a job may have"));
  }
  if (plan.total_steps == 0) return absl::InvalidArgumentError("there is nothing to train on");
  MILLRACE_RETURN_IF_ERROR(CheckEnoughBatches(plan, job, length));
  return plan;
}

}  // namespace millrace::trainer
