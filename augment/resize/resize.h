#ifndef MILLRACE_AUGMENT_RESIZE_RESIZE_H_
#define MILLRACE_AUGMENT_RESIZE_RESIZE_H_

#include <cstddef>
#include <cstdint>

#include "base/run.h"

namespace millrace::augment {

template <typename T>
T* AllocateArray(RunArena& arena, int64_t count) {
  return reinterpret_cast<T*>(arena.Allocate(static_cast<size_t>(count) * sizeof(T)));
}

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
// `out` is dense. REQUIRES: every extent > 0, in_width * channels < 2^31.
template <typename T>
void ResizeBilinear(const T* in, int64_t in_height, int64_t in_width, int64_t stride,
                    int64_t channels, T* out, int64_t out_height, int64_t out_width,
                    RunArena& arena);

// Pixels of `channels` interleaved values, rows `stride` elements apart. Borrows.
template <typename T>
struct ImageView {
  const T* data = nullptr;
  int64_t height = 0;
  int64_t width = 0;
  int64_t stride = 0;
  int64_t channels = 0;
};

// A dense image to be written. Borrows.
template <typename T>
struct ImageTarget {
  T* data = nullptr;
  int64_t height = 0;
  int64_t width = 0;
};

// MakeResize's other methods (image_ops.h), with the same REQUIRES. T is uint8_t or float.
template <typename T>
void ResizeBicubic(const ImageView<T>& in, const ImageTarget<T>& out, RunArena& arena);
// Uses the triangle kernel, or with `cubic` Keys'. REQUIRES: in's extents <= 2^16.
template <typename T>
void ResizeAntialias(const ImageView<T>& in, bool cubic, const ImageTarget<T>& out,
                     RunArena& arena);
// Takes pixels of `pixel` bytes; the rows of `in` are `stride` bytes apart.
void ResizeNearest(const std::byte* in, int64_t in_height, int64_t in_width, size_t stride,
                   size_t pixel, const ImageTarget<std::byte>& out);

// Each output pixel is the mean of the input area under it, pixels at its edge weighted by the
// fraction of theirs that lies in it (OpenCV's INTER_AREA); uint8 in integers, so exact, rounded
// half up, and float in double. Both images are dense. Takes 12 bytes per pixel of the input's
// width, 4 per one of its height and 8 per value of a row. REQUIRES: 0 < in, out <= 2^16 per
// extent.
template <typename T>
void ResizeArea(const T* in, int64_t in_height, int64_t in_width, int64_t channels, T* out,
                int64_t out_height, int64_t out_width);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_RESIZE_RESIZE_H_
