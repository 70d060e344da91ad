#include "trainer/optimizer/weight_average.h"

#include <algorithm>
#include <cstddef>

namespace millrace::trainer {

AverageElement AverageElementOf(double decay, bool warmup, uint64_t count) {
  const auto n = static_cast<double>(count);
  const double limited = warmup ? std::min(decay, (1 + n) / (10 + n)) : decay;
  return {static_cast<float>(1 - limited)};
}

void WeightAverage::Add(uint64_t count, const TensorSet& weights) {
  const AverageElement element = AverageElementOf(decay_, warmup_, count);
  for (size_t i = 0; i < weights.size(); ++i) {
    float* const average = tensors_[i].data();
    const float* const newest = weights[i].data();
    for (size_t k = 0; k < weights[i].size(); ++k) element(newest[k], average[k]);
  }
}

void WeightAverage::SwapWith(TensorSet& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    std::ranges::swap_ranges(tensors_[i], weights[i]);
  }
}

}  // namespace millrace::trainer
