#ifndef MILLRACE_AUGMENT_FUSE_PIXEL_OPS_H_
#define MILLRACE_AUGMENT_FUSE_PIXEL_OPS_H_

#include <vector>

#include "augment/image_ops.h"

namespace millrace::augment {

// What normalize multiplies with and takes away, for a few pixels, as ScaleRow
// (augment/rows/kernels.h) wants them.
struct NormalizeFactors {
  explicit NormalizeFactors(const NormalizeOptions& options);

  std::vector<float> scale;   // 1 / stddev
  std::vector<float> offset;  // mean / stddev
};

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSE_PIXEL_OPS_H_
