#ifndef MILLRACE_AUGMENT_RESIZE_INTERNAL_H_
#define MILLRACE_AUGMENT_RESIZE_INTERNAL_H_

#include <cstdint>

#include "base/run.h"

namespace millrace::augment {

// Bilinear, half-pixel centres, no antialias: an output pixel is a blend of the (at most) four
// input pixels around its centre, edges repeat. All in float32, in this order and no other, so that
// every kernel gives the same bits:
//   position = (i + 0.5) * (in / out) - 0.5      per axis; in / out is one float32 division
//   lower = max(floor(position), 0), upper = min(floor(position) + 1, in - 1)
//   weight = position - floor(position)
//   column = top + (bottom - top) * weight_y     vertical first
//   value = left + (right - left) * weight_x
// uint8 output is `value` rounded half to even.
// T is uint8_t or float. `in` points at in_height rows of in_width pixels, `stride` elements apart;
// `out` is dense. REQUIRES: every extent > 0.
template <typename T>
void ResizeBilinear(const T* in, int64_t in_height, int64_t in_width, int64_t stride,
                    int64_t channels, T* out, int64_t out_height, int64_t out_width,
                    RunArena& arena);

// Each output pixel is the mean of the input area under it, pixels at its edge weighted by the share of
// theirs that lies in it (OpenCV's INTER_AREA); in integers, so exact, rounded half up. Both images are
// dense, of 1 or 3 channels. REQUIRES: 0 < out <= in < 2^24 per extent, in_height * in_width <= 2^28.
void ResizeArea(const uint8_t* in, int64_t in_height, int64_t in_width, int64_t channels,
                uint8_t* out, int64_t out_height, int64_t out_width);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_RESIZE_INTERNAL_H_
