#ifndef MILLRACE_AUGMENT_ROWS_COLOR_H_
#define MILLRACE_AUGMENT_ROWS_COLOR_H_

#include <cstdint>

// The inner loops of the ops on colours, for the instructions that the processor has
// (augment/rows/kernels.h). They are defined in rows/color.cc unless stated otherwise. A float32
// result becomes a byte by clamping it to [0, 255] and dropping its fraction.

namespace millrace::augment {

// Returns the sum of the greys, 0.2989 R + 0.587 G + 0.114 B rounded down, of pixels.
int64_t SumGreys3(const uint8_t* in, int64_t pixels);
// value * factor + grey * rest
void SaturateRow3(const uint8_t* in, int64_t pixels, float factor, float rest, uint8_t* out);
// Each value becomes the grey of its pixel.
void GreyRow3(const uint8_t* in, int64_t pixels, uint8_t* out);
// torchvision's adjust_hue: `factor` is in turns, -0.5 to 0.5. `out` may be `in`. In hue.cc.
void ShiftHueRow3(const uint8_t* in, int64_t pixels, float factor, uint8_t* out);
// out[i] = rows[0][i] * weights[0] + rows[1][i] * weights[1] + ..., in float32, from 0 and in this
// order. In blur.cc.
void BlurRow(const uint8_t* const* rows, const float* weights, int64_t taps, int64_t count,
             float* out);
void BlurRow(const float* const* rows, const float* weights, int64_t taps, int64_t count,
             float* out);
// value + (blurred - value) * rest, where blurred is the mean, rounded half up, of 13 values: five
// times the value and its eight neighbours, `step` values to the left and right.
void SharpenRow(const uint8_t* above, const uint8_t* in, const uint8_t* below, int64_t count,
                int64_t step, float rest, uint8_t* out);
// value * factor + rest
void LinearRow(const uint8_t* in, int64_t count, float factor, float rest, uint8_t* out);
// table[value], of 256; `out` may be `in`.
void LookUpRow(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out);
// The same for pixels of three values, with one table per channel, one behind the other.
void LookUpRow3(const uint8_t* in, int64_t pixels, const uint8_t* tables, uint8_t* out);
// Finds the least and the largest value of each of three channels; 255 and 0 without pixels.
void RangeRow3(const uint8_t* in, int64_t pixels, uint8_t* low, uint8_t* high);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_ROWS_COLOR_H_
