#ifndef MILLRACE_TRAINER_COMPUTE_KEEP_DENORMALS_H_
#define MILLRACE_TRAINER_COMPUTE_KEEP_DENORMALS_H_

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace millrace::trainer {

// While it lives, its thread computes with denormal numbers, though it is one of those that flush
// them for the backend.
class KeepDenormals {
 public:
#if defined(__x86_64__)
  KeepDenormals() { _mm_setcsr(before_ & ~kFlush); }
  ~KeepDenormals() { _mm_setcsr(before_); }
#else
  KeepDenormals() = default;
  ~KeepDenormals() = default;
#endif
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kFlush = 0x8040;

  const unsigned before_ = _mm_getcsr();
#endif
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_COMPUTE_KEEP_DENORMALS_H_
