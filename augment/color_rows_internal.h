#ifndef MILLRACE_AUGMENT_COLOR_ROWS_INTERNAL_H_
#define MILLRACE_AUGMENT_COLOR_ROWS_INTERNAL_H_

#include <cstdint>

// The inner loops of the ops on colours, for the instructions that the processor has
// (row_kernels_internal.h says more). Bytes are what is left of a float32 that is cut to [0, 255].

namespace millrace::augment {

// The sum of the greys of pixels of three values: each 0.2989 R + 0.587 G + 0.114 B, cut off.
int64_t SumGreys3(const uint8_t* in, int64_t pixels);
// value * factor + grey * rest
void SaturateRow3(const uint8_t* in, int64_t pixels, float factor, float rest, uint8_t* out);
// value + (blurred - value) * rest, where blurred is the mean, rounded half up, of 13 values: five
// times the value and its eight neighbours, `step` values to the left and right.
void SharpenRow(const uint8_t* above, const uint8_t* in, const uint8_t* below, int64_t count,
                int64_t step, float rest, uint8_t* out);
// value * factor + rest
void LinearRow(const uint8_t* in, int64_t count, float factor, float rest, uint8_t* out);
// table[value], of 256; `out` may be `in`.
void LookUpRow(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out);
// The same of pixels of three values, each with its channel's table; they lie one behind the other.
void LookUpRow3(const uint8_t* in, int64_t pixels, const uint8_t* tables, uint8_t* out);
// The least and the largest value of each of three channels; 255 and 0 of no pixels.
void RangeRow3(const uint8_t* in, int64_t pixels, uint8_t* low, uint8_t* high);
// Where pixels come from, in units of 2^-16 pixels: the first one's place and how far the next is.
struct PixelWalk {
  int32_t x = 0;
  int32_t y = 0;
  int32_t step_x = 0;
  int32_t step_y = 0;
};
// Copies `count` pixels of three values from an image whose rows are `stride` bytes apart, one load and
// one store each: the byte behind every pixel is read, and one behind the last is written.
// REQUIRES: places are inside the image, whose extents are at most kMostWalked.
inline constexpr int64_t kMostWalked = 1 << 14;
void CopyPlaces3(const uint8_t* in, int64_t stride, const PixelWalk& walk, int64_t count,
                 uint8_t* out);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_COLOR_ROWS_INTERNAL_H_
