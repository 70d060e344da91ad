#ifndef MILLRACE_AUGMENT_FUSE_CARRY_H_
#define MILLRACE_AUGMENT_FUSE_CARRY_H_

#include <cstddef>

#include "augment/image/region.h"
#include "base/shape.h"
#include "base/tensor.h"

namespace millrace::augment {

// Where an image went. `window` may reach beyond it.
struct Placement {
  Region window;
  bool mirrored = false;  // left and right
  bool upside_down = false;
};

// Does to a mask [height, width, channels] what was done to an image of its size, which became one
// of `out`: the pixel under the middle, 0 beyond it. `to` has room for `out` of the mask's pixels.
void MoveMask(const ConstTensorView& mask, const Placement& placement, const Shape& out,
              std::byte* to);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSE_CARRY_H_
