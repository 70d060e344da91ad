#include <cuda_runtime_api.h>

#include "bench/spin.h"

namespace millrace::bench {
namespace {

__device__ unsigned long long NowNanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ unsigned char g_sink;

__global__ void SpinKernel(const unsigned char* input, unsigned long long nanoseconds) {
  const unsigned long long end = NowNanoseconds() + nanoseconds;
  while (NowNanoseconds() < end) __nanosleep(200);
  g_sink = *input;
}

}  // namespace

void Spin(const void* input, int microseconds, void* stream) {
  SpinKernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const unsigned char*>(input), 1000ull * microseconds);
}

}  // namespace millrace::bench
