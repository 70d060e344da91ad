#ifndef MILLRACE_BASE_SIMD_H_
#define MILLRACE_BASE_SIMD_H_

#include <string_view>

namespace millrace {

// Instructions of x86-64 that kernels are compiled for, in ascending order: each level includes
// those before it.
enum class SimdLevel { kNone, kSse42, kAvx2, kAvx512 };

// Returns the highest level that this library's own kernels may use if the processor has it:
// MILLRACE_SIMD of the environment, read once per process. For tests, which compare the bits of
// every level; libraries underneath have variables of their own. Thread-safe.
SimdLevel SimdLimit();

// "none", "sse4.2" or "avx2"; all else is no limit.
SimdLevel ParseSimdLimit(std::string_view name);

}  // namespace millrace

#endif  // MILLRACE_BASE_SIMD_H_
