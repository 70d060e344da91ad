#ifndef MILLRACE_BENCH_PRINT_RATE_H_
#define MILLRACE_BENCH_PRINT_RATE_H_

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <functional>

namespace millrace::bench {

// The processor time of the process.
inline double ProcessSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Calls `work`, which returns how many records it has done, until `seconds` have passed, and prints
// {"per_second": ...}.
inline int PrintRate(double seconds, const std::function<int64_t()>& work) {
  work();  // memory and branches as they will be
  const double start = ProcessSeconds();
  int64_t done = 0;
  double spent = 0;
  do {
    done += work();
    spent = ProcessSeconds() - start;
  } while (spent < seconds);
  std::printf("{\"per_second\": %.1f}\n", static_cast<double>(done) / spent);
  return 0;
}

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_PRINT_RATE_H_
