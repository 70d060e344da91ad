#ifndef MILLRACE_COLLECTIVES_CUDA_KERNELS_H_
#define MILLRACE_COLLECTIVES_CUDA_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "collectives/cuda/block_sum.h"

// What CudaQueue puts on its stream and the CUDA runtime has no call for. Each function puts it
// behind what `stream`, of the current device, was given, does not wait, and returns what the
// runtime says of that.

namespace millrace::collectives::kernels {

// Loads all kernels onto the current device. Unloaded ones are loaded when first run, which may
// wait until the device is idle: for ever where a kernel of NCCL waits for a peer that waits alike.
cudaError_t Load();

cudaError_t Set(int64_t* to, int64_t value, cudaStream_t stream);

cudaError_t Sum(const BlockSum& sum, cudaStream_t stream);

// *sum += the squares of `count` elements. `partials` has room for kMaxPartials and is used until
// the work is done. The order of the additions depends on `type` and `count` alone: neither on the
// GPU nor on the alignment of `data`.
inline constexpr unsigned kMaxPartials = 1024;
cudaError_t AddSquares(const void* data, DType type, size_t count, double* partials, double* sum,
                       cudaStream_t stream);

}  // namespace millrace::collectives::kernels

#endif  // MILLRACE_COLLECTIVES_CUDA_KERNELS_H_
