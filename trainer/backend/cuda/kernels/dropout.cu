// Dropout. Factors are those of the CPU's layer, bit for bit: each sample has a stream of random
// words, of which a thread makes one block, of four.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/philox_words.h"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/indices.cuh"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

constexpr int kWords = 4;  // of a block

__device__ inline PhiloxBlock BlockOf(const DropoutArgs& args, int64_t row, int64_t block) {
  const BatchRows& batch = args.batch;
  RandomKey key;
  key.seed = Mix64(batch.step->seed ^ Mix64(batch.step->step));
  key.op = args.layer;
  key.record = static_cast<uint64_t>(row);
  if (batch.ids != nullptr) {
    const SampleId& id = batch.ids[row];
    key.epoch = id.epoch;
    key.record = id.record;
    key.sub_index = id.sub_index;
  }
  PhiloxBlock first = FirstBlock(key);
  first.counter[0] = static_cast<uint32_t>(block);
  return first;
}

// Values whose word has 24 upper bits below `dropped` become zero, the others are times `kept`.
template <typename T, bool kIsWhole>
__global__ void DropKernel(DropoutArgs args, int64_t row_blocks, uint32_t dropped, float kept) {
  for (int64_t i = FirstIndex(); i < args.batch.rows * row_blocks; i += IndexStep()) {
    int64_t row = i;
    const int64_t block = TakeLast(row, row_blocks);
    const std::array<uint32_t, kWords> words = BlockOf(args, row, block).Words();
    const int64_t offset = row * args.row_values + block * kWords;
    const T* const from = static_cast<const T*>(args.from) + offset;
    T* const to = static_cast<T*>(args.to) + offset;
    float factors[kWords];
    MILLRACE_UNROLL
    for (int k = 0; k < kWords; ++k) factors[k] = (words[k] >> 8) < dropped ? 0 : kept;
    if constexpr (kIsWhole) {
      float values[kWords];
      Load(from, values);
      MILLRACE_UNROLL
      for (int k = 0; k < kWords; ++k) values[k] *= factors[k];
      StoreOrAdd(values, args.accumulates, to);
    } else {
      const int64_t values = args.row_values - block * kWords;
      MILLRACE_UNROLL
      for (int k = 0; k < kWords; ++k) {
        if (k >= values) continue;
        float value[1] = {AsFloat(from[k]) * factors[k]};
        StoreOrAdd(value, args.accumulates, to + k);
      }
    }
  }
}

bool IsWhole(const DropoutArgs& args) {
  const auto reach = reinterpret_cast<uintptr_t>(args.from) | reinterpret_cast<uintptr_t>(args.to);
  return args.row_values % kWords == 0 && reach % (SizeOf(args.type) * kWords) == 0;
}

}  // namespace

// A word's 24 upper bits times 2^-24 are the CPU's random number, which drops a value if it is
// below the rate.
absl::Status DropValues(void* stream, const DropoutArgs& args) {
  const int64_t row_blocks = (args.row_values + kWords - 1) / kWords;
  const int64_t blocks = args.batch.rows * row_blocks;
  if (blocks == 0) return absl::OkStatus();
  const auto dropped = static_cast<uint32_t>(std::ceil(args.rate * 0x1p24));
  const auto kept = static_cast<float>(1 / (1 - args.rate));
  const Grid grid = {.name = "dropout", .blocks = BlocksFor(blocks), .threads = kThreads};
  return WithType(args.type, [&]<typename T>() {
    return IsWhole(args)
               ? Launch(stream, grid, DropKernel<T, true>, args, row_blocks, dropped, kept)
               : Launch(stream, grid, DropKernel<T, false>, args, row_blocks, dropped, kept);
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
