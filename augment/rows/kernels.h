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

// Floats behind a row that BlendColumns3 may write.
inline constexpr int64_t kRowSlack = 16;
// The taps of a row are filled up to a multiple of this.
inline constexpr int64_t kTapsPerStep = 4;

// From which pixels the pixels of a row are blended: floats from the row's first to the left one's
// first and to the right one's, and how far it is between them, four times.
struct ColumnTaps {
  const int32_t* lower = nullptr;
  const int32_t* upper = nullptr;
  const float* weights = nullptr;
  int64_t count = 0;
};

// The same for registers that hold kWindowValues values of the output: what one register is blended
// from lies close together, in a window of the row, and one instruction looks up all its values.
inline constexpr int64_t kWindowValues = 16;
inline constexpr int64_t kWindowFloats = 32;
inline constexpr int64_t kWideWindowFloats = 64;
struct ColumnWindows {
  const int32_t* first = nullptr;  // where each window begins in the row
  const int32_t* left = nullptr;   // of each value: where in its window the left one is
  const int32_t* right = nullptr;  // and the right one
  const float* weights = nullptr;  // of each value
  int64_t count = 0;               // of windows; 0: there are none
  bool wide = false;               // of kWideWindowFloats, not of kWindowFloats
};

// What becomes of a blended pixel of three values: rounded half to even, then, with `scale`,
// value * factor - offset per channel.
struct PixelScaling {
  bool round = false;
  bool scale = false;
  alignas(16) float factor[4] = {};
  alignas(16) float offset[4] = {};
};

// --- Defined in row_kernels.cc ---

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

// --- Defined in value_rows.cc ---

// out[i] = in[i] * factor[i % period] - offset[i % period]. REQUIRES: period % 16 == 0.
void ScaleRow(const uint8_t* in, int64_t count, const float* factor, const float* offset,
              int64_t period, float* out);
void ScaleRow(const float* in, int64_t count, const float* factor, const float* offset,
              int64_t period, float* out);
// As ToHalf and ToBFloat (base/half.h).
void ToHalfRow(const float* in, int64_t count, uint16_t* out);
void ToBFloatRow(const float* in, int64_t count, uint16_t* out);
// own[i] = other[i] * others + own[i] * kept, rounded to the type, half to even. REQUIRES: `kept`
// and `others` are shares that add up to 1, but for a rounding.
void MixRow(const uint8_t* other, float others, float kept, int64_t count, uint8_t* own);
void MixRow(const float* other, float others, float kept, int64_t count, float* own);
void MixRow(const Half* other, float others, float kept, int64_t count, Half* own);
void MixRow(const BFloat* other, float others, float kept, int64_t count, BFloat* own);

// --- Defined in row_kernels.cc ---

// The levels that there are here, the slowest last, and, in tests and benches, the only one to be
// used from now on by all threads. 0: the best.
std::vector<int64_t> RowKernelLevels();
const char* RowKernelLevelName(int64_t level);
// The one that calls go to now.
int64_t RowKernelLevelInUse();
void UseRowKernelLevel(int64_t level);

// Takes the levels above MILLRACE_SIMD's limit (base/simd.h) away, for all kernels that
// Highway chooses in this process. Of every file that has some before any is called: Highway asks
// the processor at the first call.
bool LimitRowKernels();
[[maybe_unused]] inline const bool kRowKernelsAreLimited = LimitRowKernels();

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_ROWS_KERNELS_H_
