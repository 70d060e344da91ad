#include "collectives/reducer/gradient_accumulator.h"

#include "collectives/core/reduce.h"

namespace millrace::collectives {

void GradientAccumulator::Add(size_t i, const TensorView& gradient, bool first, bool last) {
  if (first && last) return;
  std::vector<float>& sum = sums_[i];
  const auto count = static_cast<size_t>(gradient.shape.num_elements());
  sum.resize(count);
  if (first) {
    BeginReduction(gradient.dtype, sum.data(), gradient.data, count);
  } else {
    Accumulate(gradient.dtype, ReduceOp::kSum, sum.data(), gradient.data, count);
  }
  if (last) EndReduction(gradient.dtype, ReduceOp::kSum, 1, sum.data(), gradient.data, count);
}

}  // namespace millrace::collectives
