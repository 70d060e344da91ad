#ifndef MILLRACE_AUGMENT_ROWS_RESAMPLE_H_
#define MILLRACE_AUGMENT_ROWS_RESAMPLE_H_

#include <algorithm>
#include <cstdint>

#include "augment/rows/kernels.h"
#include "base/run.h"

// The inner loops of resizing with antialias, by bicubic and by area (augment/resize/resize.h), for
// the instructions that the processor has: the same bits at every level.

namespace millrace::augment {

// Fraction bits of the integer weights of bytes; sums are rounded half up.
inline constexpr int kWeightBits = 22;
// The distance of two pixels' weights is a multiple of this; unused ones are 0, and as many more
// follow the last pixel's.
inline constexpr int64_t kWeightStep = 4;
// Number of values behind a row that WeighWindows may read, as WeighPixels may for bytes.
// WeighWindows may also write up to kWindowValues - 1 values behind its output.
inline constexpr int64_t kWeighedSlack = kWideWindowFloats;

// The neighbours whose weighed sum is a pixel of a row; `stride` weights per pixel.
struct WeighedRange {
  int64_t first = 0;  // in pixels, as count
  int64_t count = 0;
};
template <typename W>
struct PixelWeights {
  const WeighedRange* ranges = nullptr;
  const W* weights = nullptr;
  int64_t stride = 0;
  int64_t count = 0;  // number of pixels
};

// The same for registers of kWindowValues values (ColumnWindows says why).
template <typename W>
struct WeightWindows {
  const int32_t* first = nullptr;   // place in the row of each window's first value
  const int32_t* places = nullptr;  // per window, tap and value: the input's place in the window
  const W* weights = nullptr;       // in the same order as places
  int64_t taps = 0;
  int64_t count = 0;  // number of windows; 0: there are none
  bool wide = false;  // true if the windows have kWideWindowFloats, not kWindowFloats
};

template <typename W>
struct WeighedTap {
  int64_t at;  // pixels
  W weight;
};

// The windows of `rows` rows of `pixels` whose value is the sum of tap(pixel, 0 .. taps - 1), which
// ascend, as those of pixels do. None where windows would be too narrow, or are of fewer rows than
// pay for the tables: those have 8 bytes for each tap of each value.
inline constexpr int64_t kLeastWindowRows = 8;
template <typename W, typename Tap>
WeightWindows<W> MakeWeightWindows(int64_t rows, int64_t pixels, int64_t channels, int64_t taps,
                                   const Tap& tap, RunArena& arena) {
  if (rows < kLeastWindowRows) return {};
  const int64_t count = (pixels * channels + kWindowValues - 1) / kWindowValues;
  const auto first_of = [&](int64_t window) {
    return tap(window * kWindowValues / channels, 0).at * channels;
  };
  int64_t reach = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t last = std::min(((i + 1) * kWindowValues - 1) / channels, pixels - 1);
    reach = std::max(reach, (tap(last, taps - 1).at + 1) * channels - first_of(i));
  }
  if (reach > kWideWindowFloats) return {};
  const auto allocate = [&](int64_t values) {
    return arena.Allocate(static_cast<size_t>(values) * sizeof(int32_t));
  };
  static_assert(sizeof(W) == sizeof(int32_t));
  auto* const first = reinterpret_cast<int32_t*>(allocate(count));
  auto* const places = reinterpret_cast<int32_t*>(allocate(count * taps * kWindowValues));
  auto* const weights = reinterpret_cast<W*>(allocate(count * taps * kWindowValues));
  for (int64_t i = 0, to = 0; i < count; ++i) {
    const int64_t begin = first_of(i);
    first[i] = static_cast<int32_t>(begin);
    for (int64_t j = 0; j < taps; ++j) {
      int64_t pixel = i * kWindowValues / channels;
      int64_t channel = i * kWindowValues % channels;
      for (const int64_t end = to + kWindowValues; to < end; ++pixel, channel = 0) {
        const WeighedTap<W> from = tap(std::min(pixel, pixels - 1), j);
        for (; channel < channels && to < end; ++channel, ++to) {
          places[to] = static_cast<int32_t>(from.at * channels + channel - begin);
          weights[to] = from.weight;
        }
      }
    }
  }
  return {first, places, weights, taps, count, reach > kWindowFloats};
}

// --- Defined in resample.cc ---

// out[i] = weights[0] * in[i] + weights[1] * in[stride + i] + ..., of `rows` rows. Bytes are
// rounded and cut to [0, 255]; floats are added up in double, from 0 and in this order.
void WeighRows(const uint8_t* in, int64_t stride, const int32_t* weights, int64_t rows,
               int64_t count, uint8_t* out);
void WeighRows(const float* in, int64_t stride, const double* weights, int64_t rows, int64_t count,
               float* out);
// The same along a row of pixels.
void WeighPixels(const uint8_t* row, int64_t channels, const PixelWeights<int32_t>& columns,
                 uint8_t* out);
void WeighPixels(const float* row, int64_t channels, const PixelWeights<double>& columns,
                 float* out);
// REQUIRES: HasColumnWindows().
void WeighWindows(const uint8_t* row, const WeightWindows<int32_t>& windows, uint8_t* out);
// In float32: the products, from the first to the last.
void WeighWindows(const float* row, const WeightWindows<float>& windows, float* out);

// --- Defined in bicubic_rows.cc ---

// Four rows and their weights: a[i] * weights[0] + b[i] * weights[1] + ..., in float32 and this
// order.
template <typename T>
struct FourRows {
  const T* rows[4];
  float weights[4];
};
void WeighFourRows(const FourRows<uint8_t>& in, int64_t count, float* out);
void WeighFourRows(const FourRows<float>& in, int64_t count, float* out);
// The same of four pixels of each row: `at` has where they begin and `weights` theirs, four each.
// Reads and writes up to three floats behind the rows.
struct FourPixels {
  const int32_t* at = nullptr;
  const float* weights = nullptr;
  int64_t count = 0;
};
void WeighFourPixels(const float* row, int64_t channels, const FourPixels& columns, float* out);

// --- Defined in area_rows.cc ---

// sums[i] = weights[0] * in[i] + weights[1] * in[stride + i] + ..., of `rows` rows, from 0 and in
// this order. Sums of bytes are exact. REQUIRES for bytes: those of 255 are below 2^32.
void SumRows(const uint8_t* in, int64_t stride, const uint32_t* weights, int64_t rows,
             int64_t count, double* sums);
void SumRows(const float* in, int64_t stride, const uint32_t* weights, int64_t rows, int64_t count,
             double* sums);
// Pixels that are those sums, weighed, added up from 0 and divided by `area`; bytes are rounded
// half up. Reads one sum behind the last. REQUIRES for bytes: all is integers, weighed sums are at
// most 255 * area, and area <= 2^44. Then these with half of area are below 2^52, and a quotient
// below 256 that is no integer is at least 1 / area from one, which is more than a division's
// rounding (2^-46).
void MeanPixels(const double* sums, int64_t channels, const PixelWeights<double>& columns,
                double area, uint8_t* out);
void MeanPixels(const double* sums, int64_t channels, const PixelWeights<double>& columns,
                double area, float* out);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_ROWS_RESAMPLE_H_
