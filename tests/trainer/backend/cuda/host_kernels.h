#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_HOST_KERNELS_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_HOST_KERNELS_H_

#include "trainer/backend/cuda/kernels/kernels.h"

namespace millrace::trainer::cuda {

// The kernels' own sources, compiled for the host over simt.h. Memory of the device is the host's,
// and a stream is a HostStream, or null: the work is then done at once.
const Kernels& HostKernels();

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_HOST_KERNELS_H_
