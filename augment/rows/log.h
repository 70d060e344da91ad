#ifndef MILLRACE_AUGMENT_ROWS_LOG_H_
#define MILLRACE_AUGMENT_ROWS_LOG_H_

#include <cstdint>

// Logarithms of float64 additions, multiplications and divisions alone, less than 1 ulp off, for
// the processor's instructions: the bits are the same at every level (UseRowKernelLevel in
// augment/rows/kernels.h). libm's are not, as it uses fused operations where there are any.

namespace millrace::augment {

// The number of values is a multiple of this.
inline constexpr int64_t kLogStep = 8;

// x becomes ln(x). REQUIRES: each x > 0, or NaN, which stays.
void LogRow(double* values, int64_t count);
// x becomes ln(1 + x). REQUIRES: each x > -1, or NaN, which stays.
void LogOnePlusRow(double* values, int64_t count);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_ROWS_LOG_H_
