#ifndef MILLRACE_COLLECTIVES_REDUCER_GRADIENT_ACCUMULATOR_H_
#define MILLRACE_COLLECTIVES_REDUCER_GRADIENT_ACCUMULATOR_H_

#include <cstddef>
#include <vector>

#include "base/tensor.h"

namespace millrace::collectives {

// Adds the gradients of a step's micro-batches up, in float32, rounded once. Thread-compatible.
class GradientAccumulator {
 public:
  explicit GradientAccumulator(size_t num_gradients) : sums_(num_gradients) {}

  // Takes gradient `i` of a micro-batch; that of the last one becomes the sum of all.
  void Add(size_t i, const TensorView& gradient, bool first, bool last);

 private:
  std::vector<std::vector<float>> sums_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_GRADIENT_ACCUMULATOR_H_
