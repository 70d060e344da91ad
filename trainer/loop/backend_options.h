#ifndef MILLRACE_TRAINER_LOOP_BACKEND_OPTIONS_H_
#define MILLRACE_TRAINER_LOOP_BACKEND_OPTIONS_H_

#include "base/dtype.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/network_options.h"
#include "trainer/backend/cuda/parameter_store.h"
#include "trainer/job/job.h"

namespace millrace::trainer {

// The options of the backend of a job's models on one rank.
BackendOptions BackendOptionsOf(const Job& job, const CoreSplit& cores);

// The type of products on a GPU.
DType ComputeTypeOf(const Job& job);

// How the networks of a model that is trained give their work to a GPU. `store` has its tensors;
// `tuned` chooses the plans of products, and outlives the networks; null: the device chooses.
cuda::NetworkOptions NetworkOptionsOf(const Job& job, const cuda::ParameterStore& store,
                                      cuda::TunedPlans* tuned);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_BACKEND_OPTIONS_H_
