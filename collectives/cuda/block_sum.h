#ifndef MILLRACE_COLLECTIVES_CUDA_BLOCK_SUM_H_
#define MILLRACE_COLLECTIVES_CUDA_BLOCK_SUM_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace millrace::collectives {

// out[i] = (first[i] + block 0[i] + block 1[i] + ...) / max(1, *rows), in float32 and in this
// order, rounded once to the type of `out`. All arrays are in the device's memory and float32,
// float16 or bfloat16. `out` may be `first` or a block if the elements have the same size.
struct BlockSum {
  const float* first = nullptr;  // null: the sum begins with block 0
  const void* blocks = nullptr;  // `num_blocks` times `count` elements of `in_type`
  DType in_type = DType::kF32;
  int num_blocks = 1;
  void* out = nullptr;
  DType out_type = DType::kF32;
  size_t count = 0;
  const int64_t* rows = nullptr;  // null: not divided
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CUDA_BLOCK_SUM_H_
