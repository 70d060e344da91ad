#include "trainer/backend/cuda/folding.h"

#include <array>

namespace millrace::trainer::cuda {
namespace {

constexpr std::array<int64_t, 2> kHalving = {2, 2};

}  // namespace

bool IsFoldable(const Window& window, const Shape& image) {
  return window.stride == kHalving && window.dilation == Window().dilation && window.groups == 1 &&
         image[0] % 2 == 0 && image[1] % 2 == 0 && 4 * image[2] <= kFoldedChannels;
}

// What is padded behind the image is as much as the window's places need.
ProductSpec Folded(ProductSpec spec) {
  spec.height /= 2;
  spec.width /= 2;
  spec.channels = kFoldedChannels;
  Window window;
  for (const int axis : {0, 1}) {
    const int64_t extent = axis == 0 ? spec.height : spec.width;
    const int64_t places = axis == 0 ? spec.out_height : spec.out_width;
    const int64_t before = (spec.window.padding[2 * axis] + FoldShift(spec.window, axis)) / 2;
    window.kernel[axis] = FoldedTaps(spec.window, axis);
    window.padding[2 * axis] = before;
    window.padding[2 * axis + 1] = places + window.kernel[axis] - 1 - before - extent;
  }
  spec.window = window;
  return spec;
}

}  // namespace millrace::trainer::cuda
