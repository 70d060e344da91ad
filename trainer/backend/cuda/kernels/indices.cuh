#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_INDICES_CUH_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_INDICES_CUH_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "trainer/backend/cuda/kernels/launch.h"

// Which thread does what. Tensors may have more than 2^31 elements, so all indices have 64 bits.

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {

constexpr unsigned kThreads = 256;  // of most blocks

// Threads beyond this take several elements each: more than the largest GPU runs at a time.
constexpr int64_t kMaxBlocks = 4096;

constexpr unsigned BlocksFor(int64_t threads) {
  return static_cast<unsigned>(
      std::min<int64_t>(kMaxBlocks, (threads + kThreads - 1) / int64_t{kThreads}));
}

// Elements of one thread of a launch that has fewer threads than there are elements:
//   for (int64_t i = FirstIndex(); i < count; i += IndexStep())
__device__ constexpr int64_t IndexOf(unsigned block, unsigned threads, unsigned thread) {
  return int64_t{block} * threads + thread;
}
__device__ inline int64_t FirstIndex() { return IndexOf(blockIdx.x, blockDim.x, threadIdx.x); }
__device__ inline int64_t IndexStep() { return int64_t{gridDim.x} * blockDim.x; }

// value / by, and the rest. Divisions of 32 bits take a quarter of the time. REQUIRES: none is
// negative.
struct Quotient {
  int64_t quotient;
  int64_t rest;
};
__device__ __host__ constexpr Quotient Divide(int64_t value, int64_t by) {
  if (((value | by) >> 32) == 0) {
    const auto small = static_cast<uint32_t>(value);
    const auto divisor = static_cast<uint32_t>(by);
    return {small / divisor, small % divisor};
  }
  return {value / by, value % by};
}

// Takes the last of several indices that `index` was made of: index = others * extent + the last.
__device__ __host__ constexpr int64_t TakeLast(int64_t& index, int64_t extent) {
  const Quotient divided = Divide(index, extent);
  index = divided.quotient;
  return divided.rest;
}

// A divisor that the host knows: a product and a shift take the place of each division (Granlund
// and Montgomery 1994, theorem 4.2). REQUIRES: it is positive; numbers and divisor are below 2^31.
class Divider {
 public:
  explicit Divider(int64_t by)
      : shift_(31 + std::bit_width(static_cast<uint64_t>(by - 1))),
        factor_(static_cast<uint32_t>(((uint64_t{1} << shift_) + by - 1) / by)) {}

  __device__ int Divide(int value) const {
    return static_cast<int>((uint64_t{static_cast<uint32_t>(value)} * factor_) >> shift_);
  }

 private:
  int shift_;
  uint32_t factor_;
};

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_INDICES_CUH_
