#ifndef MILLRACE_AUGMENT_JPEG_TARGET_INTERNAL_H_
#define MILLRACE_AUGMENT_JPEG_TARGET_INTERNAL_H_

// Instructions beyond those that every x86-64 has: functions are compiled for them one by one, and
// called where the processor has them. MILLRACE_INLINE functions are part of whoever calls them, and
// so compiled for the caller's.

#if defined(__x86_64__)
#define MILLRACE_JPEG_X86 1
#define MILLRACE_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2")))
#else
#define MILLRACE_JPEG_X86 0
#endif
#define MILLRACE_INLINE inline __attribute__((always_inline))

namespace millrace::augment::jpeg {

// Which kernels run; the bits are the same.
enum class Level { kScalar, kAvx2 };

inline Level BestLevel() {
#if MILLRACE_JPEG_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2")) {
    return Level::kAvx2;
  }
#endif
  return Level::kScalar;
}

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_TARGET_INTERNAL_H_
