#include "collectives/core/ordered_reduction.h"

#include <algorithm>
#include <cstring>

#include "collectives/core/reduce.h"
#include "collectives/core/sum_kernels.h"

namespace millrace::collectives {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kBlockBytes = 16 << 10;

bool IsSum(ReduceOp op) { return op == ReduceOp::kSum || op == ReduceOp::kAverage; }

bool HasKernel(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

}  // namespace

void ReduceInOrder(DType dtype, ReduceOp op, std::span<const std::byte* const> inputs, size_t count,
                   std::span<std::byte* const> outputs) {
  if (IsSum(op) && HasKernel(dtype)) {
    const std::vector<const void*> in(inputs.begin(), inputs.end());
    const std::vector<void*> out(outputs.begin(), outputs.end());
    return SumAndStore(dtype, in, out, count,
                       op == ReduceOp::kAverage ? static_cast<float>(inputs.size()) : 1);
  }
  const size_t element = SizeOf(dtype);
  const size_t step = kBlockBytes / SizeOf(AccumulatorType(dtype));
  alignas(kCacheLine) std::byte sum[kBlockBytes];
  alignas(kCacheLine) std::byte rounded[kBlockBytes];
  std::byte* const result = AccumulatorType(dtype) == dtype ? sum : rounded;
  for (size_t at = 0; at < count; at += step) {
    const size_t elements = std::min(step, count - at);
    BeginReduction(dtype, sum, inputs[0] + at * element, elements);
    for (const std::byte* input : inputs.subspan(1)) {
      Accumulate(dtype, op, sum, input + at * element, elements);
    }
    EndReduction(dtype, op, static_cast<int>(inputs.size()), sum, result, elements);
    for (std::byte* output : outputs) {
      std::memcpy(output + at * element, result, elements * element);
    }
  }
}

std::pair<size_t, size_t> ShareOf(size_t bytes, int rank, int size) {
  const size_t lines = (bytes + kCacheLine - 1) / kCacheLine;
  const size_t share = (lines + size - 1) / size * kCacheLine;
  const size_t begin = std::min(bytes, share * rank);
  return {begin, std::min(bytes, begin + share)};
}

}  // namespace millrace::collectives
