#ifndef MILLRACE_AUGMENT_RESIZE_IMAGE_H_
#define MILLRACE_AUGMENT_RESIZE_IMAGE_H_

#include <cstdint>

#include "augment/image_ops.h"
#include "base/run.h"

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

// What they are resized to.
struct ResizeTarget {
  ResizeMethod method = ResizeMethod::kBilinear;
  bool antialias = false;
  DType dtype = DType::kU8;
  int64_t height = 0;
  int64_t width = 0;
};

// Writes the image that MakeResize makes of `in` to `out`, dense. REQUIRES: ResizedShape takes it.
void ResizeImage(const PixelView& in, const ResizeTarget& target, void* out, RunArena& arena);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_RESIZE_IMAGE_H_
