#include "trainer/optimizer/weight_average.h"

#include <algorithm>
#include <cstddef>

namespace millrace::trainer {

void WeightAverage::Add(uint64_t count, const TensorSet& weights) {
  const auto n = static_cast<double>(count);
  const double decay = warmup_ ? std::min(decay_, (1 + n) / (10 + n)) : decay_;
  const auto part = static_cast<float>(1 - decay);
  for (size_t i = 0; i < weights.size(); ++i) {
    float* const average = tensors_[i].data();
    const float* const newest = weights[i].data();
    for (size_t k = 0; k < weights[i].size(); ++k) average[k] += part * (newest[k] - average[k]);
  }
}

void WeightAverage::SwapWith(TensorSet& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    std::ranges::swap_ranges(tensors_[i], weights[i]);
  }
}

}  // namespace millrace::trainer
