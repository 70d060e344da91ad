#ifndef MILLRACE_TRAINER_LOOP_STEPS_H_
#define MILLRACE_TRAINER_LOOP_STEPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "pipeline/pipeline.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {

// How batches make steps of the optimizer, and steps a job.
struct StepPlan {
  uint64_t accumulate = 1;      // batches of a step; no more than an epoch has
  uint64_t epoch_batches = 0;   // 0: an epoch is so many steps, not batches
  uint64_t stream_batches = 0;  // 0: no end, or after the last step
  uint64_t steps_per_epoch = 0;
  uint64_t total_steps = 0;

  // Batches of step `step`, from 0: `accumulate`, and what is left for the last one of an epoch.
  uint64_t BatchesOf(uint64_t step) const;
};

// `job` has its defaults filled in; `length` is of the training pipeline.
//   INVALID_ARGUMENT  the job has to say more, asks for more than there is, or has no step
absl::StatusOr<StepPlan> PlanSteps(const Job& job, const pipeline::StreamLength& length);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_STEPS_H_
