// This file is compiled once for each set of instructions, as kernels.cc is. The set that every
// x86-64 has runs plain loops here, which the compiler makes vectors of: all others are compared
// with them.
//
// A row of bytes is resampled in one of three ways. AVX-512 takes sixteen values at a time, of
// pixels of any kind, and looks each tap up among two or four registers of the row (WeightWindows).
// Where those do not reach, and with AVX2, a pixel of three or four channels is taken at a time,
// two or four taps in one register. Other pixels are taken value by value. Floats are summed in
// double, pixel by pixel in plain loops, at every level; those of bicubic, which are summed in
// float32, have windows too.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/resample.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>

#include "augment/rows/floats-inl.h"
#include "augment/rows/resample.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

using Ints = hn::Rebind<int32_t, Floats>;
using IntsV = hn::Vec<Ints>;
using Bytes = hn::Rebind<uint8_t, Floats>;

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

HWY_INLINE uint8_t Rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}
HWY_INLINE float Rounded(double sum) { return static_cast<float>(sum); }

// --- Down the columns ---

template <typename T, typename W>
HWY_INLINE void RoundEach(const W* HWY_RESTRICT sums, int64_t count, T* HWY_RESTRICT out) {
  for (int64_t i = 0; i < count; ++i) out[i] = Rounded(sums[i]);
}

// Columns [begin, end) by plain loops, a piece at a time that the first cache holds.
template <typename T, typename W>
void WeighRest(const T* in, int64_t stride, const W* weights, int64_t rows, int64_t begin,
               int64_t end, W start, T* out) {
  constexpr int64_t kPiece = 512;
  W sums[kPiece];
  for (; begin < end; begin += kPiece) {
    const int64_t count = std::min(end - begin, kPiece);
    std::fill_n(sums, count, start);
    for (int64_t j = 0; j < rows; ++j) AddWeighed(in + j * stride + begin, weights[j], count, sums);
    RoundEach(sums, count, out + begin);
  }
}

#if HWY_TARGET == HWY_SCALAR
void WeighByteRows(const uint8_t* in, int64_t stride, const int32_t* weights, int64_t rows,
                   int64_t count, uint8_t* out) {
  WeighRest(in, stride, weights, rows, 0, count, kHalf, out);
}
void WeighFloatRows(const float* in, int64_t stride, const double* weights, int64_t rows,
                    int64_t count, float* out) {
  WeighRest(in, stride, weights, rows, 0, count, 0.0, out);
}
#else
using Doubles = hn::CappedTag<double, 8>;
using DoublesV = hn::Vec<Doubles>;
using Singles = hn::Rebind<float, Doubles>;
constexpr int64_t kDoubles = static_cast<int64_t>(hn::MaxLanes(Doubles()));

// kBlock registers of sums, which stay registers over all rows.
template <int kBlock>
HWY_INLINE void WeighBlock(const uint8_t* HWY_RESTRICT in, int64_t stride,
                           const int32_t* HWY_RESTRICT weights, int64_t rows,
                           uint8_t* HWY_RESTRICT out) {
  constexpr Ints d;
  IntsV sums[kBlock];
  for (int b = 0; b < kBlock; ++b) sums[b] = hn::Set(d, kHalf);
  for (int64_t j = 0; j < rows; ++j, in += stride) {
    const IntsV weight = hn::Set(d, weights[j]);
    for (int b = 0; b < kBlock; ++b) {
      const IntsV value = hn::PromoteTo(d, hn::LoadU(Bytes(), in + b * kLanes));
      sums[b] = hn::Add(sums[b], hn::Mul(weight, value));
    }
  }
  for (int b = 0; b < kBlock; ++b) {
    hn::StoreU(hn::DemoteTo(Bytes(), hn::ShiftRight<kWeightBits>(sums[b])), Bytes(),
               out + b * kLanes);
  }
}

template <int kBlock>
HWY_INLINE void WeighBlock(const float* HWY_RESTRICT in, int64_t stride,
                           const double* HWY_RESTRICT weights, int64_t rows,
                           float* HWY_RESTRICT out) {
  constexpr Doubles d;
  DoublesV sums[kBlock];
  for (int b = 0; b < kBlock; ++b) sums[b] = hn::Zero(d);
  for (int64_t j = 0; j < rows; ++j, in += stride) {
    const DoublesV weight = hn::Set(d, weights[j]);
    for (int b = 0; b < kBlock; ++b) {
      const DoublesV value = hn::PromoteTo(d, hn::LoadU(Singles(), in + b * kDoubles));
      sums[b] = hn::Add(sums[b], hn::Mul(weight, value));
    }
  }
  for (int b = 0; b < kBlock; ++b) {
    hn::StoreU(hn::DemoteTo(Singles(), sums[b]), Singles(), out + b * kDoubles);
  }
}

void WeighByteRows(const uint8_t* in, int64_t stride, const int32_t* weights, int64_t rows,
                   int64_t count, uint8_t* out) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    WeighBlock<4>(in + i, stride, weights, rows, out + i);
  }
  for (; i + kLanes <= count; i += kLanes) WeighBlock<1>(in + i, stride, weights, rows, out + i);
  WeighRest(in, stride, weights, rows, i, count, kHalf, out);
}
void WeighFloatRows(const float* in, int64_t stride, const double* weights, int64_t rows,
                    int64_t count, float* out) {
  int64_t i = 0;
  for (; i + 4 * kDoubles <= count; i += 4 * kDoubles) {
    WeighBlock<4>(in + i, stride, weights, rows, out + i);
  }
  WeighRest(in, stride, weights, rows, i, count, 0.0, out);
}
#endif

// --- Along the rows ---

// Pixels from `begin` on by plain loops. kChannels 0: of `channels`.
template <int kChannels, typename T, typename W>
void WeighPixelsFrom(int64_t begin, const T* HWY_RESTRICT row, int64_t channels,
                     const PixelWeights<W>& columns, W start, T* HWY_RESTRICT out) {
  const int64_t step = kChannels > 0 ? kChannels : channels;
  out += begin * step;
  for (int64_t x = begin; x < columns.count; ++x, out += step) {
    const auto [first, count] = columns.ranges[x];
    const T* const from = row + first * step;
    const W* const weights = columns.weights + x * columns.stride;
    if constexpr (kChannels > 0) {
      W sums[kChannels];
      std::fill_n(sums, kChannels, start);
      for (int64_t j = 0; j < count; ++j) {
        for (int c = 0; c < kChannels; ++c) sums[c] += weights[j] * from[j * kChannels + c];
      }
      for (int c = 0; c < kChannels; ++c) out[c] = Rounded(sums[c]);
    } else {
      for (int64_t c = 0; c < step; ++c) {
        W sum = start;
        for (int64_t j = 0; j < count; ++j) sum += weights[j] * from[j * step + c];
        out[c] = Rounded(sum);
      }
    }
  }
}

#if HWY_TARGET <= HWY_AVX2
HWY_INLINE hn::Vec<hn::FixedTag<int32_t, 4>> SumOfQuarters(hn::Vec<hn::FixedTag<int32_t, 8>> v) {
  constexpr hn::FixedTag<int32_t, 4> d;
  return hn::Add(hn::LowerHalf(d, v), hn::UpperHalf(d, v));
}
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE hn::Vec<hn::FixedTag<int32_t, 4>> SumOfQuarters(hn::Vec<hn::FixedTag<int32_t, 16>> v) {
  constexpr hn::FixedTag<int32_t, 8> d;
  return SumOfQuarters(hn::Add(hn::LowerHalf(d, v), hn::UpperHalf(d, v)));
}
HWY_INLINE IntsV WidenTaps(hn::Vec<hn::FixedTag<uint8_t, 16>> taps) {
  return hn::PromoteTo(Ints(), taps);
}
#else
HWY_INLINE IntsV WidenTaps(hn::Vec<hn::FixedTag<uint8_t, 16>> taps) {
  return hn::PromoteTo(Ints(), hn::LowerHalf(Bytes(), taps));
}
#endif

// Each quarter of a register has the channels of a tap. All pixels but the last, behind which a
// byte would be written.
template <int kChannels>
HWY_INLINE void WeighPixelVectors(const uint8_t* HWY_RESTRICT row,
                                  const PixelWeights<int32_t>& columns, uint8_t* HWY_RESTRICT out) {
  constexpr Ints d;
  constexpr hn::FixedTag<uint8_t, 16> bytes;
  constexpr hn::FixedTag<int32_t, 4> quarter;
  constexpr hn::FixedTag<uint8_t, 4> pixel;
  constexpr int64_t kTaps = kLanes / 4;
  static_assert(kWeightStep % kTaps == 0);
  alignas(16) static constexpr uint8_t kSpread3[16] = {0, 1, 2, 128, 3, 4,  5,  128,
                                                       6, 7, 8, 128, 9, 10, 11, 128};
  alignas(64) static constexpr int32_t kEach[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  const auto spread = hn::Load(bytes, kSpread3);
  const auto each = hn::SetTableIndices(d, kEach);
  const int32_t* weights = columns.weights;
  for (int64_t x = 0; x + 1 < columns.count; ++x, weights += columns.stride, out += kChannels) {
    const auto [first, count] = columns.ranges[x];
    const uint8_t* from = row + first * kChannels;
    IntsV sums = hn::Zero(d);
    for (int64_t j = 0; j < count; j += kTaps, from += kTaps * kChannels) {
      auto taps = hn::LoadU(bytes, from);
      if constexpr (kChannels == 3) taps = hn::TableLookupBytesOr0(taps, spread);
      const IntsV weight = hn::TableLookupLanes(hn::LoadDup128(d, weights + j), each);
      sums = hn::Add(sums, hn::Mul(weight, WidenTaps(taps)));
    }
    const auto sum = hn::Add(SumOfQuarters(sums), hn::Set(quarter, kHalf));
    hn::StoreU(hn::DemoteTo(pixel, hn::ShiftRight<kWeightBits>(sum)), pixel, out);
  }
}
#endif

void WeighBytePixels(const uint8_t* row, int64_t channels, const PixelWeights<int32_t>& columns,
                     uint8_t* out) {
  int64_t done = 0;
#if HWY_TARGET <= HWY_AVX2
  if (channels == 3) WeighPixelVectors<3>(row, columns, out);
  if (channels == 4) WeighPixelVectors<4>(row, columns, out);
  if (channels == 3 || channels == 4) done = columns.count - 1;
#endif
  if (channels == 3) return WeighPixelsFrom<3>(done, row, channels, columns, kHalf, out);
  if (channels == 1) return WeighPixelsFrom<1>(done, row, channels, columns, kHalf, out);
  WeighPixelsFrom<0>(done, row, channels, columns, kHalf, out);
}

void WeighFloatPixels(const float* row, int64_t channels, const PixelWeights<double>& columns,
                      float* out) {
  if (channels == 3) return WeighPixelsFrom<3>(0, row, channels, columns, 0.0, out);
  if (channels == 1) return WeighPixelsFrom<1>(0, row, channels, columns, 0.0, out);
  WeighPixelsFrom<0>(0, row, channels, columns, 0.0, out);
}

#if HWY_TARGET <= HWY_AVX3
HWY_INLINE IntsV LoadWindow(const uint8_t* in) {
  return hn::PromoteTo(Ints(), hn::LoadU(Bytes(), in));
}
HWY_INLINE FloatsV LoadWindow(const float* in) { return hn::LoadU(Floats(), in); }
HWY_INLINE IntsV InTwo(IntsV a, IntsV at, IntsV b) {
  return IntsV{_mm512_permutex2var_epi32(a.raw, at.raw, b.raw)};
}
HWY_INLINE FloatsV InTwo(FloatsV a, IntsV at, FloatsV b) {
  return FloatsV{_mm512_permutex2var_ps(a.raw, at.raw, b.raw)};
}
HWY_INLINE void StoreWeighed(IntsV sums, uint8_t* out) {
  hn::StoreU(hn::DemoteTo(Bytes(), hn::ShiftRight<kWeightBits>(sums)), Bytes(), out);
}
HWY_INLINE void StoreWeighed(FloatsV sums, float* out) { hn::StoreU(sums, Floats(), out); }

template <bool kWide, typename T, typename W>
HWY_INLINE void WeighWindowsAs(const T* HWY_RESTRICT row, const WeightWindows<W>& windows,
                               T* HWY_RESTRICT out) {
  constexpr hn::Rebind<W, Floats> d;
  using V = hn::Vec<decltype(d)>;
  const int32_t* places = windows.places;
  const W* weights = windows.weights;
  for (int64_t i = 0; i < windows.count; ++i) {
    const T* const from = row + windows.first[i];
    V window[4];
    for (int64_t part = 0; part < (kWide ? 4 : 2); ++part) {
      window[part] = LoadWindow(from + part * kLanes);
    }
    const auto product = [&]() HWY_ATTR {
      const IntsV at = hn::LoadU(Ints(), places);
      V value = InTwo(window[0], at, window[1]);
      if constexpr (kWide) {
        const auto is_far = hn::RebindMask(d, hn::TestBit(at, hn::Set(Ints(), 32)));
        value = hn::IfThenElse(is_far, InTwo(window[2], at, window[3]), value);
      }
      const V weight = hn::LoadU(d, weights);
      places += kWindowValues;
      weights += kWindowValues;
      return hn::Mul(weight, value);
    };
    V sums = product();
    for (int64_t j = 1; j < windows.taps; ++j) sums = hn::Add(sums, product());
    if constexpr (sizeof(T) == 1) sums = hn::Add(sums, hn::Set(d, kHalf));
    StoreWeighed(sums, out + i * kWindowValues);
  }
}
#else
template <bool kWide, typename T, typename W>
void WeighWindowsAs(const T*, const WeightWindows<W>&, T*) {}
#endif

void WeighByteWindows(const uint8_t* row, const WeightWindows<int32_t>& windows, uint8_t* out) {
  if (windows.wide) return WeighWindowsAs<true>(row, windows, out);
  WeighWindowsAs<false>(row, windows, out);
}
void WeighFloatWindows(const float* row, const WeightWindows<float>& windows, float* out) {
  if (windows.wide) return WeighWindowsAs<true>(row, windows, out);
  WeighWindowsAs<false>(row, windows, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(WeighByteRows);
HWY_EXPORT(WeighFloatRows);
HWY_EXPORT(WeighBytePixels);
HWY_EXPORT(WeighFloatPixels);
HWY_EXPORT(WeighByteWindows);
HWY_EXPORT(WeighFloatWindows);

void WeighRows(const uint8_t* in, int64_t stride, const int32_t* weights, int64_t rows,
               int64_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(WeighByteRows)(in, stride, weights, rows, count, out);
}
void WeighRows(const float* in, int64_t stride, const double* weights, int64_t rows, int64_t count,
               float* out) {
  HWY_DYNAMIC_DISPATCH(WeighFloatRows)(in, stride, weights, rows, count, out);
}
void WeighPixels(const uint8_t* row, int64_t channels, const PixelWeights<int32_t>& columns,
                 uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(WeighBytePixels)(row, channels, columns, out);
}
void WeighPixels(const float* row, int64_t channels, const PixelWeights<double>& columns,
                 float* out) {
  HWY_DYNAMIC_DISPATCH(WeighFloatPixels)(row, channels, columns, out);
}
void WeighWindows(const uint8_t* row, const WeightWindows<int32_t>& windows, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(WeighByteWindows)(row, windows, out);
}
void WeighWindows(const float* row, const WeightWindows<float>& windows, float* out) {
  HWY_DYNAMIC_DISPATCH(WeighFloatWindows)(row, windows, out);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
