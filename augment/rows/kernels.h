#ifndef MILLRACE_AUGMENT_ROWS_KERNELS_H_
#define MILLRACE_AUGMENT_ROWS_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/half.h"

// The inner loops over one row of pixels, for the instructions that the processor has. Each
// product, sum and difference is rounded to float32 by itself, so the bits are the same at every
// level.

namespace millrace::augment {

// Number of floats behind a row that BlendColumns3 may write.
inline constexpr int64_t kRowSlack = 16;
// The number of taps of a row is filled up to a multiple of this.
inline constexpr int64_t kTapsPerStep = 4;

// The two pixels of the input that each pixel of a row is blended from: the places of their first
// floats in the row, and the weight of the right one, four times.
struct ColumnTaps {
  const int32_t* lower = nullptr;
  const int32_t* upper = nullptr;
  const float* weights = nullptr;
  int64_t count = 0;
};

// The same for registers of kWindowValues output values: the inputs of one register lie close
// together, in a window of the row, and one instruction looks up all of them.
inline constexpr int64_t kWindowValues = 16;
inline constexpr int64_t kWindowFloats = 32;
inline constexpr int64_t kWideWindowFloats = 64;
struct ColumnWindows {
  const int32_t* first = nullptr;  // place in the row of each window's first float
  const int32_t* left = nullptr;   // per value: place of the left input in its window
  const int32_t* right = nullptr;  // per value: place of the right input in its window
  const float* weights = nullptr;  // one weight for each value
  int64_t count = 0;               // number of windows; 0: windows cannot be used
  bool wide = false;               // true if windows have kWideWindowFloats, not kWindowFloats
};

// The steps after blending a pixel of three values.
struct PixelScaling {
  bool round = false;  // true to round to integers, half to even
  bool scale = false;  // true to make value * factor - offset per channel of that
  alignas(16) float factor[4] = {};
  alignas(16) float offset[4] = {};
};

// --- Defined in kernels.cc ---

// out[i] = top[i] + (bottom[i] - top[i]) * weight
void BlendRows(const uint8_t* top, const uint8_t* bottom, float weight, int64_t count, float* out);
void BlendRows(const float* top, const float* bottom, float weight, int64_t count, float* out);
// Pixels of three values: left + (right - left) * weight, then `scaling`. Reads four floats at each
// tap and writes up to kRowSlack floats behind the row.
void BlendColumns3(const float* row, const ColumnTaps& taps, const PixelScaling& scaling,
                   float* out);
// As BlendColumns3. Reads whole windows. REQUIRES: HasColumnWindows().
bool HasColumnWindows();
void BlendWindows3(const float* row, const ColumnWindows& windows, const PixelScaling& scaling,
                   float* out);
// Rounded half to even. REQUIRES: they round to 0 to 255.
void RoundToBytes(const float* in, int64_t count, uint8_t* out);
// Cut to [0, 255], then the same. REQUIRES: none is NaN.
void CutToBytes(const float* in, int64_t count, uint8_t* out);

// --- Defined in value.cc ---

// out[i] = in[i] * factor[i % period] - offset[i % period]. REQUIRES: period % 16 == 0.
void ScaleRow(const uint8_t* in, int64_t count, const float* factor, const float* offset,
              int64_t period, float* out);
void ScaleRow(const float* in, int64_t count, const float* factor, const float* offset,
              int64_t period, float* out);
// As ToHalf and ToBFloat (base/half.h).
void ToHalfRow(const float* in, int64_t count, uint16_t* out);
void ToBFloatRow(const float* in, int64_t count, uint16_t* out);
// own[i] = other[i] * others + own[i] * kept, rounded to the type, half to even. REQUIRES: `kept`
// and `others` are weights that add up to 1, but for a rounding.
void MixRow(const uint8_t* other, float others, float kept, int64_t count, uint8_t* own);
void MixRow(const float* other, float others, float kept, int64_t count, float* own);
void MixRow(const Half* other, float others, float kept, int64_t count, Half* own);
void MixRow(const BFloat* other, float others, float kept, int64_t count, BFloat* own);

// --- Defined in kernels.cc ---

// Returns the levels of this processor, the slowest last. UseRowKernelLevel, for tests and benches,
// makes all threads use one of them from now on; 0 is the best.
std::vector<int64_t> RowKernelLevels();
const char* RowKernelLevelName(int64_t level);
// The level that calls go to now.
int64_t RowKernelLevelInUse();
void UseRowKernelLevel(int64_t level);

// Removes the levels above MILLRACE_SIMD's limit (base/simd.h) for all kernels that Highway chooses
// in this process. Runs before the first call of a kernel, when Highway asks the processor: every
// file that calls kernels includes this variable.
bool LimitRowKernels();
[[maybe_unused]] inline const bool kRowKernelsAreLimited = LimitRowKernels();

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_ROWS_KERNELS_H_
