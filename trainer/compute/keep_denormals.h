#ifndef MILLRACE_TRAINER_COMPUTE_KEEP_DENORMALS_H_
#define MILLRACE_TRAINER_COMPUTE_KEEP_DENORMALS_H_

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace millrace::trainer {

#if defined(__x86_64__)
// Of the processor's mode: results that are denormal become zeros, and so do operands.
inline constexpr unsigned kFlushDenormals = 0x8000 | 0x40;
#endif

// While it lives, its thread computes with denormal numbers, though it is one of those that flush
// them for the backend.
class KeepDenormals {
 public:
#if defined(__x86_64__)
  KeepDenormals() { _mm_setcsr(before_ & ~kFlushDenormals); }
  ~KeepDenormals() { _mm_setcsr(before_); }
#else
  KeepDenormals() = default;
  ~KeepDenormals() = default;
#endif
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

 private:
#if defined(__x86_64__)
  const unsigned before_ = _mm_getcsr();
#endif
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_COMPUTE_KEEP_DENORMALS_H_
