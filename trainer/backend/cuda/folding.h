#ifndef MILLRACE_TRAINER_BACKEND_CUDA_FOLDING_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_FOLDING_H_

#include <cstdint>

#include "base/shape.h"
#include "trainer/backend/cuda/product.h"
#include "trainer/model/layer.h"

// Images of few channels leave most of a tensor core idle. A convolution with stride 2 is the same
// as one with stride 1 on the folded image, in which 2 by 2 pixels are one of four times the
// channels ("space to depth"; MLPerf's ResNet-50 has its first convolution so). Sums have the same
// terms, in another order.
//
// Along an axis, output y sums the taps k of pixels 2 y + k - padding. With shift = padding mod 2
// that is pixel (k + shift) mod 2 of folded pixel y + (k + shift) / 2 - (padding + shift) / 2. So
// the window on the folded image has taps 0 to (taps - 1 + shift) / 2; a tap of it that is none of
// the window's own has weights of zero.

namespace millrace::trainer::cuda {

// The channels of a folded image, and of the weights for it. Channel c of the pixel that is i down
// and j to the right among the four is channel (2 i + j) * channels + c; further ones are zeros.
constexpr int64_t kFoldedChannels = 16;

// By how many taps the window's first is behind that of the folded one; axis 0 is height.
constexpr int64_t FoldShift(const Window& window, int axis) { return window.padding[2 * axis] % 2; }

constexpr int64_t FoldedTaps(const Window& window, int axis) {
  return (window.kernel[axis] + FoldShift(window, axis) + 1) / 2;
}

// True if a convolution of images [height, width, channels] can be computed on the folded ones.
bool IsFoldable(const Window& window, const Shape& image);

// The product on folded images that is `spec` on the images. REQUIRES: they are foldable.
ProductSpec Folded(ProductSpec spec);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_FOLDING_H_
