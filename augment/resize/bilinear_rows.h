#ifndef MILLRACE_AUGMENT_RESIZE_BILINEAR_ROWS_H_
#define MILLRACE_AUGMENT_RESIZE_BILINEAR_ROWS_H_

#include <cstdint>
#include <span>

#include "augment/rows/kernels.h"
#include "base/run.h"

namespace millrace::augment {

// Makes single rows of a resized image in any order, with the bits of ResizeBilinear
// (augment/resize/resize.h). Thread-compatible.
class BilinearRows {
 public:
  struct Extents {
    int64_t in_height = 0;
    int64_t in_width = 0;
    int64_t out_height = 0;
    int64_t out_width = 0;
    int64_t channels = 0;
  };
  // With `mirrored` rows run from right to left. The arena must outlive it. REQUIRES: every extent
  // > 0.
  BilinearRows(const Extents& extents, bool mirrored, RunArena& arena);

  // Writes row `y` of the image whose rows are `stride` elements apart, and up to kRowSlack floats
  // behind it. Images of three channels go through `scaling`; others do not.
  template <typename T>
  void Row(const T* in, int64_t stride, int64_t y, const PixelScaling& scaling, float* out);

  int64_t row_floats() const { return extents_.out_width * extents_.channels; }

 private:
  struct Tap {
    int64_t lower;
    int64_t upper;
    float weight;
  };
  static Tap MakeTap(int64_t i, float ratio, int64_t in);
  void MakeWindows(RunArena& arena);
  void BlendColumns(float* out) const;

  const Extents extents_;
  const float row_ratio_;
  ColumnTaps columns_;
  ColumnWindows windows_;  // the same as columns_, where windows can be used
  float* const blended_;   // scratch: one row of the input's width
};

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_RESIZE_BILINEAR_ROWS_H_
