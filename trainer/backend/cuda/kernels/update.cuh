#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_UPDATE_CUH_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_UPDATE_CUH_

#include "trainer/backend/cuda/kernels/launch.h"
#include "trainer/backend/cuda/kernels/update.h"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {

// Those of this build.
extern const UpdateKernels kUpdateKernels;

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_UPDATE_CUH_
