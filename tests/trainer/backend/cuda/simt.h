#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_SIMT_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_SIMT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>

#include "absl/status/status.h"
#include "tests/trainer/backend/cuda/host_stream.h"
#include "trainer/backend/cuda/kernels/grid.h"

// CUDA's words and its model of execution for a processor: sources of kernels that are compiled
// behind this file run on the host, under a sanitizer if there is one. Blocks run one after the
// other. So do the threads of a block if the launch says that the kernel has no barriers; else each
// is a fiber, which runs to its next barrier. Memory of a device is the host's.
//
// Host threads may launch at the same time. Shared memory is static, so that its bounds are seen by
// a sanitizer: kernels with barriers run one at a time.

#define __global__
#define __launch_bounds__(...)
#define __device__
#define __host__
#define __shared__ static
#define MILLRACE_KERNEL_BUILD on_host

namespace millrace::trainer::cuda::simt {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};

using Place = std::source_location;

// Runs `thread` for every thread of the grid.
//   INTERNAL  threads of a block wait at different barriers, or for one that has ended: on a device
//             they would wait for ever. Or a kernel that is launched as one without barriers has
//             one. The text names the kernel and the places.
absl::Status Run(const Grid& grid, const std::function<void()>& thread);

// For the running thread.
void WaitForBlock(const Place& place);
void WaitForWarp(unsigned mask, const Place& place);
// The `value` of the lane `from` of the warp, of those in `mask`; its own if there is no such lane.
uint64_t Exchange(unsigned mask, uint64_t value, int from, const Place& place);

}  // namespace millrace::trainer::cuda::simt

// As CUDA has them, in no namespace.
extern thread_local constinit millrace::trainer::cuda::simt::Index threadIdx;
extern thread_local constinit millrace::trainer::cuda::simt::Index blockIdx;
extern thread_local constinit millrace::trainer::cuda::simt::Index blockDim;
extern thread_local constinit millrace::trainer::cuda::simt::Index gridDim;

inline void __syncthreads(
    const millrace::trainer::cuda::simt::Place& place = std::source_location::current()) {
  millrace::trainer::cuda::simt::WaitForBlock(place);
}

inline void __syncwarp(
    unsigned mask = 0xFFFFFFFF,
    const millrace::trainer::cuda::simt::Place& place = std::source_location::current()) {
  millrace::trainer::cuda::simt::WaitForWarp(mask, place);
}

// All shuffles are an exchange with a lane.
template <typename T>
T ShuffleFrom(unsigned mask, T value, int lane, const std::source_location& place) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = millrace::trainer::cuda::simt::Exchange(mask, bits, lane, place);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane,
              const std::source_location& place = std::source_location::current()) {
  return ShuffleFrom(mask, value, lane, place);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance,
                  const std::source_location& place = std::source_location::current()) {
  return ShuffleFrom(mask, value, static_cast<int>(threadIdx.x % 32) ^ distance, place);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance,
                   const std::source_location& place = std::source_location::current()) {
  return ShuffleFrom(mask, value, static_cast<int>(threadIdx.x % 32 + distance), place);
}

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {

// As launch.h says for a device; `stream` is a HostStream, or null: the kernel runs now.
template <typename... Parameters, typename... Arguments>
absl::Status Launch(void* stream, const Grid& grid, void (*kernel)(Parameters...),
                    const Arguments&... arguments) {
  const auto work = [=] {
    return simt::Run(grid, [&] { kernel(static_cast<Parameters>(arguments)...); });
  };
  return stream == nullptr ? work() : static_cast<HostStream*>(stream)->Give(work);
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_SIMT_H_
