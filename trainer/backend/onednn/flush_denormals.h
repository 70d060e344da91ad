#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_FLUSH_DENORMALS_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_FLUSH_DENORMALS_H_

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "trainer/compute/keep_denormals.h"
#include "trainer/compute/threads.h"

namespace millrace::trainer {

// While it lives, its thread takes and makes zeros for denormal numbers, which take a processor a
// hundred times as long.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() { _mm_setcsr(before_ | kFlushDenormals); }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() = default;
  ~FlushDenormals() = default;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

  // The same for all of oneDNN's threads but the calling one, for as long as they live.
  static void OnThreads([[maybe_unused]] int threads) {
#if defined(__x86_64__)
    RunOnThreads(threads, [](int thread, int) {
      if (thread > 0) _mm_setcsr(_mm_getcsr() | kFlushDenormals);
    });
#endif
  }

 private:
#if defined(__x86_64__)
  const unsigned before_ = _mm_getcsr();
#endif
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_FLUSH_DENORMALS_H_
