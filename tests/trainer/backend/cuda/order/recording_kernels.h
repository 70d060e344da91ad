#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_KERNELS_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_KERNELS_H_

#include "trainer/backend/cuda/kernels/kernels.h"

namespace millrace::trainer::cuda::order {

// The kernels of a recording: each is an item of work on its stream, a Recording::Stream.
const Kernels& RecordingKernels();

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_KERNELS_H_
