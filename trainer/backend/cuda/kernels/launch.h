#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_LAUNCH_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_LAUNCH_H_

// Sources of kernels (.cu, .cuh) are compiled twice: by nvcc, and as plain C++ for tests, which
// include tests/trainer/backend/cuda/simt.h before them; it has CUDA's words for a processor
// without a GPU. A program may hold both, so each build has a namespace of its own:
//
//   namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
//
// Bits are those of the plain C++: nvcc fuses no operations (--fmad=false), and functions whose
// bits differ between libraries (exp, log) are not used. MILLRACE_UNROLL stands before a loop that
// nvcc unrolls.

#include "absl/status/status.h"
#include "trainer/backend/cuda/kernels/grid.h"

#if defined(__CUDACC__)

#include <cuda_runtime.h>

#include "base/cuda_calls.h"

#define MILLRACE_KERNEL_BUILD on_device
#define MILLRACE_UNROLL _Pragma("unroll")

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {

// Puts the kernel on `stream`, a cudaStream_t of the current device, and does not wait.
//   INTERNAL  the driver's error, with the kernel's name
template <typename... Parameters, typename... Arguments>
absl::Status Launch(void* stream, const Grid& grid, void (*kernel)(Parameters...),
                    const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(grid.blocks);
  config.blockDim = dim3(grid.threads);
  config.stream = static_cast<cudaStream_t>(stream);
  return millrace::cuda::ToStatus(
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), grid.name);
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD

#elif defined(MILLRACE_KERNEL_BUILD)  // by simt.h, which has Launch
#define MILLRACE_UNROLL
#else
#error "neither nvcc nor the tests' simt.h"
#endif

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_LAUNCH_H_
