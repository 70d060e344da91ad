#ifndef MILLRACE_AUGMENT_JPEG_TARGET_H_
#define MILLRACE_AUGMENT_JPEG_TARGET_H_

// Functions for instructions that not every x86-64 has: each is compiled for its instructions, and
// called only if the processor has them. A MILLRACE_INLINE function becomes a part of its caller,
// and is compiled for the caller's instructions.

#include "base/simd.h"

#if defined(__x86_64__)
#pragma GCC diagnostic push
#if !defined(__clang__)
// g++ 12 warns of what its own AVX-512 functions leave open: its bug 105593.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#define MILLRACE_JPEG_X86 1
#define MILLRACE_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2")))
#define MILLRACE_TARGET_AVX512 \
  __attribute__((target("avx2,bmi,bmi2,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#else
#define MILLRACE_JPEG_X86 0
#endif
#define MILLRACE_INLINE inline __attribute__((always_inline))

namespace millrace::augment::jpeg {

// The kernels to use; the bits are the same. A processor that has one level has those before it.
enum class Level { kScalar, kAvx2, kAvx512 };

// Returns the processor's level, up to MILLRACE_SIMD's limit: AVX2 needs "avx2", AVX-512 no limit.
inline Level BestLevel() {
#if MILLRACE_JPEG_X86
  if (SimdLimit() < SimdLevel::kAvx2) return Level::kScalar;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2")) {
    return Level::kScalar;
  }
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512vbmi") &&
                          __builtin_cpu_supports("avx512vbmi2");
  return has_avx512 && SimdLimit() >= SimdLevel::kAvx512 ? Level::kAvx512 : Level::kAvx2;
#else
  return Level::kScalar;
#endif
}

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_TARGET_H_
