#ifndef MILLRACE_AUGMENT_RESIZE_IMAGE_H_
#define MILLRACE_AUGMENT_RESIZE_IMAGE_H_

#include <cstdint>

#include "augment/image/region.h"
#include "augment/image_ops.h"
#include "base/run.h"
#include "base/tensor.h"

namespace millrace::augment {

// Pixels of a region of an image. Borrows.
struct PixelView {
  const void* data = nullptr;  // its first pixel
  DType dtype = DType::kU8;
  int64_t stride = 0;  // elements from a row to the next
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
};

// Returns the pixels of `region` of `image`. REQUIRES: the region lies in the image.
PixelView ViewOf(const ConstTensorView& image, const Region& region);

// The size and dtype to resize to, and how.
struct ResizeTarget {
  ResizeMethod method = ResizeMethod::kBilinear;
  bool antialias = false;  // true if kBilinear and kBicubic antialias
  DType dtype = DType::kU8;
  int64_t height = 0;
  int64_t width = 0;
};

// Writes the image that MakeResize makes of `in` to `out`, dense. REQUIRES:
// ResizedShape accepts it.
void ResizeImage(const PixelView& in, const ResizeTarget& target, void* out, RunArena& arena);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_RESIZE_IMAGE_H_
