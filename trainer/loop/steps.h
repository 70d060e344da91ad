#ifndef MILLRACE_TRAINER_LOOP_STEPS_H_
#define MILLRACE_TRAINER_LOOP_STEPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "pipeline/pipeline.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {

// The division of a job into steps of the optimizer, and of steps into batches.
struct StepPlan {
  uint64_t accumulate = 1;      // batches of a step; no more than an epoch has
  uint64_t epoch_batches = 0;   // 0: an epoch is a number of steps, not of batches
  uint64_t stream_batches = 0;  // 0: the stream has no end, or ends after the last step
  uint64_t steps_per_epoch = 0;
  uint64_t total_steps = 0;

  // Batches of step `step`, from 0: `accumulate`; the last step of an epoch may have fewer.
  uint64_t BatchesOf(uint64_t step) const;
};

// `job` has its defaults filled in; `length` is of the training pipeline.
//   INVALID_ARGUMENT  the job lacks a field, asks for more than there is, or has no step
absl::StatusOr<StepPlan> PlanSteps(const Job& job, const pipeline::StreamLength& length);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_STEPS_H_
