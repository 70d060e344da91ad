#ifndef MILLRACE_AUGMENT_COLOR_NORMALIZE_H_
#define MILLRACE_AUGMENT_COLOR_NORMALIZE_H_

#include <vector>

#include "augment/image_ops.h"

namespace millrace::augment {

// The factors and offsets of normalize, repeated for a few pixels, as ScaleRow
// (augment/rows/kernels.h) takes them.
struct NormalizeFactors {
  explicit NormalizeFactors(const NormalizeOptions& options);

  std::vector<float> scale;   // 1 / stddev
  std::vector<float> offset;  // mean / stddev
};

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_COLOR_NORMALIZE_H_
