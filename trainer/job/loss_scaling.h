#ifndef MILLRACE_TRAINER_JOB_LOSS_SCALING_H_
#define MILLRACE_TRAINER_JOB_LOSS_SCALING_H_

#include <optional>

#include "trainer/job/bad_field.h"
#include "trainer/job/job.pb.h"

// The job's `loss_scaling`: its fields, their limits and their defaults.

namespace millrace::trainer {

inline constexpr double kLargestLossScale = 1 << 24;

// Returns the first field of `loss_scaling` that is missing or out of range, or does not go with
// another one; nullopt: none. The job is as the user wrote it.
std::optional<BadField> CheckLossScaling(const Job& job);

void FillDefaults(LossScaling& spec);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_LOSS_SCALING_H_
