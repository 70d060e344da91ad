#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_KERNEL_TARGETS_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_KERNEL_TARGETS_H_

#include "base/half.h"
#include "base/simd.h"

// Kernels are plain loops in MILLRACE_INLINE functions, which become parts of functions that are
// compiled for the instructions of one processor or another. Only kernels include this.

#define MILLRACE_INLINE inline __attribute__((always_inline))
// Before a loop whose rounds touch different elements, though pointers may be equal. clang looks
// for itself.
#if defined(__clang__)
#define MILLRACE_INDEPENDENT
#else
#define MILLRACE_INDEPENDENT _Pragma("GCC ivdep")
#endif
#if defined(__x86_64__)
#define MILLRACE_KERNELS_X86 1
#define MILLRACE_KERNEL_AVX2 __attribute__((target("avx2")))
#define MILLRACE_KERNEL_AVX512 __attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define MILLRACE_KERNELS_X86 0
#endif

namespace millrace::trainer {

MILLRACE_INLINE float Load(const float* from) { return *from; }
MILLRACE_INLINE float Load(const BFloat* from) { return ToFloat(*from); }
MILLRACE_INLINE void Store(float value, float* to) { *to = value; }
MILLRACE_INLINE void Store(float value, BFloat* to) { *to = ToBFloat(value); }

// The highest level, of kNone, kAvx2 and kAvx512, that this processor has, up to MILLRACE_SIMD's.
inline SimdLevel KernelLevel() {
#if MILLRACE_KERNELS_X86
  if (SimdLimit() >= SimdLevel::kAvx512 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return SimdLevel::kAvx512;
  }
  if (SimdLimit() >= SimdLevel::kAvx2 && __builtin_cpu_supports("avx2")) return SimdLevel::kAvx2;
#endif
  return SimdLevel::kNone;
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_KERNEL_TARGETS_H_
