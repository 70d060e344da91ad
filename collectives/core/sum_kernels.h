#ifndef MILLRACE_COLLECTIVES_CORE_SUM_KERNELS_H_
#define MILLRACE_COLLECTIVES_CORE_SUM_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace millrace::collectives {

// Sums of squares by element index modulo 16, so that every set of instructions adds in one order.
using SquareSums = std::array<double, 16>;

// Sums the ranges of `in` in their order, ((x0 + x1) + x2) ..., divides by `divisor` unless it is
// 1, and stores the result to every range of `out`; 16-bit floats are summed as float32 and rounded
// once. The bits are those of collectives/core/reduce.h's loops with any instructions of the
// processor (but for the bits of a NaN). Ranges are of `count` elements, aligned as these, and are
// the same or apart. With `squares` the squares of the stored numbers are added there. REQUIRES:
// `in` and `out` have ranges; dtype is float32, float16 or bfloat16.
void SumAndStore(DType dtype, std::span<const void* const> in, std::span<void* const> out,
                 size_t count, float divisor = 1, SquareSums* squares = nullptr);

// The sets of instructions that there are here and, in tests, the only one to be used from now on
// by all threads. 0: the best.
std::vector<int64_t> SumKernelLevels();
void UseSumKernelLevel(int64_t level);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CORE_SUM_KERNELS_H_
