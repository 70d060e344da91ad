#ifndef MILLRACE_COLLECTIVES_CUDA_KERNELS_H_
#define MILLRACE_COLLECTIVES_CUDA_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "collectives/cuda/block_sum.h"

// The work of CudaQueue for which the CUDA runtime has no call. Each function puts its work on
// `stream`, a stream of the current device, does not wait, and returns the runtime's status.

namespace millrace::collectives::kernels {

// Loads all kernels onto the current device. Otherwise a kernel is loaded when it first runs, which
// may wait until the device is idle: for ever, if a kernel of NCCL waits for a peer that waits in
// the same way.
cudaError_t Load();

cudaError_t Set(int64_t* to, int64_t value, cudaStream_t stream);

cudaError_t Sum(const BlockSum& sum, cudaStream_t stream);

// *sum += the squares of `count` elements. `partials` has room for kMaxPartials and is used until
// the work is done. The order of the additions depends only on `type` and `count`, not on the GPU
// or the alignment of `data`.
inline constexpr unsigned kMaxPartials = 1024;
cudaError_t AddSquares(const void* data, DType type, size_t count, double* partials, double* sum,
                       cudaStream_t stream);

}  // namespace millrace::collectives::kernels

#endif  // MILLRACE_COLLECTIVES_CUDA_KERNELS_H_
