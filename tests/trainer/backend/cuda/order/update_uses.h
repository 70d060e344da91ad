#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_UPDATE_USES_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_UPDATE_USES_H_

#include "trainer/backend/cuda/kernels/update.h"

namespace millrace::trainer::cuda::order {

// The kernels of optimizers of a recording, as RecordingKernels. Which parts of a region a kernel
// uses is in the tables of tiles that the host has copied to the device. Gradients are read for
// sums over ranks.
const UpdateKernels& RecordingUpdateKernels();

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_UPDATE_USES_H_
