#ifndef MILLRACE_TRAINER_JOB_ADVERSARIAL_H_
#define MILLRACE_TRAINER_JOB_ADVERSARIAL_H_

#include <optional>

#include "trainer/job/bad_field.h"
#include "trainer/job/job.pb.h"

// The job's `adversarial`: its fields, their limits and their defaults.

namespace millrace::trainer {

// Returns the first field of `adversarial` that is missing or out of range, or the first other one
// that does not go with it; nullopt: none. The job is as the user wrote it.
std::optional<BadField> CheckAdversarial(const Job& job);

// Fills in the defaults; `optimizer`, with its own, is that of a model that has none.
void FillDefaults(const OptimizerSpec& optimizer, Adversarial& adversarial);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_ADVERSARIAL_H_
