#ifndef MILLRACE_AUGMENT_ROWS_WARP_H_
#define MILLRACE_AUGMENT_ROWS_WARP_H_

#include <cstdint>

#include "augment/image/color_image.h"

// The inner loops of the affine map (augment/geometry/affine.h), for the instructions that the
// processor has.

namespace millrace::augment {

// Where pixels come from, in units of 2^-16 pixels: the first one's place and how far the next is.
struct PixelWalk {
  int32_t x = 0;
  int32_t y = 0;
  int32_t step_x = 0;
  int32_t step_y = 0;
};
// Copies `count` pixels of three values from an image whose rows are `stride` bytes apart, one load
// and one store each: the byte behind every pixel is read, and one behind the last is written.
// REQUIRES: places are inside the image, whose extents are at most kMostWalked.
inline constexpr int64_t kMostWalked = 1 << 14;
void CopyPlaces3(const uint8_t* in, int64_t stride, const PixelWalk& walk, int64_t count,
                 uint8_t* out);

// Where pixels come from: that with its centre at x comes from
// ((step_x * x + along_x) + shift_x, (step_y * x + along_y) + shift_y), in double.
struct PixelLine {
  double step_x = 0;
  double along_x = 0;
  double shift_x = 0;
  double step_y = 0;
  double along_y = 0;
  double shift_y = 0;
};
// Writes pixels begin to end - 1 of a row: each is blended of the (at most) four around its place,
// in double, first columns, then rows, and cut off. REQUIRES: places are inside the image.
void BlendPlaces(const ColorImage& in, const PixelLine& line, int64_t begin, int64_t end,
                 uint8_t* row);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_ROWS_WARP_H_
