#ifndef MILLRACE_TRAINER_JOB_OPTIMIZER_FIELDS_H_
#define MILLRACE_TRAINER_JOB_OPTIMIZER_FIELDS_H_

#include <optional>

#include "trainer/job/bad_field.h"
#include "trainer/job/job.pb.h"

// The job's `optimizer`: its fields, their limits and their defaults.

namespace millrace::trainer {

// Returns the first field that is out of range, or that contradicts another; nullopt: none. The
// spec is as the user wrote it, before FillDefaults.
std::optional<BadField> CheckOptimizer(const OptimizerSpec& spec);

// Fills in the defaults of the fields that are not given, and moves the fields of `sgd` to where
// they may also be written: so equal settings are equal texts.
void FillDefaults(OptimizerSpec& spec);

// True if rates depend on the number of the last step.
bool NeedsEnd(const OptimizerSpec& spec);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_OPTIMIZER_FIELDS_H_
