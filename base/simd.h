#ifndef MILLRACE_BASE_SIMD_H_
#define MILLRACE_BASE_SIMD_H_

#include <string_view>

namespace millrace {

// Instructions of x86-64 that kernels are compiled for. In order: each stands for those before it
// too.
enum class SimdLevel { kNone, kSse42, kAvx2, kAvx512 };

// The highest level that this library's own kernels may use where the processor has it: what
// MILLRACE_SIMD says in the environment, read once in a process. For tests, which compare the bits
// of every level: libraries underneath have variables of their own. Thread-safe.
SimdLevel SimdLimit();

// "none", "sse4.2" or "avx2"; all else is no limit.
SimdLevel ParseSimdLimit(std::string_view name);

}  // namespace millrace

#endif  // MILLRACE_BASE_SIMD_H_
