#ifndef MILLRACE_AUGMENT_FUSE_MASK_H_
#define MILLRACE_AUGMENT_FUSE_MASK_H_

#include <cstddef>

#include "augment/image/region.h"
#include "base/shape.h"
#include "base/tensor.h"

namespace millrace::augment {

// The window of an image that became the output, perhaps mirrored. It may reach beyond the image.
struct Placement {
  Region window;
  bool mirrored = false;     // true if left and right are swapped
  bool upside_down = false;  // true if top and bottom are swapped
};

// Moves a mask [height, width, channels] as an image of its size was moved, whose output has the
// shape `out`: each pixel is the one under its middle, or 0 beyond the mask. `to` has room for the
// height and width of `out` in the mask's pixels.
void MoveMask(const ConstTensorView& mask, const Placement& placement, const Shape& out,
              std::byte* to);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSE_MASK_H_
