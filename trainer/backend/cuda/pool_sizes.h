#ifndef MILLRACE_TRAINER_BACKEND_CUDA_POOL_SIZES_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_POOL_SIZES_H_

#include <cstdint>

#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/model/model.h"

namespace millrace::trainer::cuda {

// The kind and the sizes of a layer that pools; neither type nor memory.
PoolArgs PoolSizes(const Model& model, const Layer& layer, int64_t rows);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_POOL_SIZES_H_
