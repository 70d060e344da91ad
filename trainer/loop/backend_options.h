#ifndef MILLRACE_TRAINER_LOOP_BACKEND_OPTIONS_H_
#define MILLRACE_TRAINER_LOOP_BACKEND_OPTIONS_H_

#include "base/dtype.h"
#include "trainer/backend/backend.h"
#include "trainer/job/job.h"

namespace millrace::trainer {

// The options of the backend of a job's models on one rank.
BackendOptions BackendOptionsOf(const Job& job, const CoreSplit& cores);

// The type of products on a GPU.
DType ComputeTypeOf(const Job& job);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_BACKEND_OPTIONS_H_
