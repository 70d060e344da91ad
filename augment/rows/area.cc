// Compiled once for each set of instructions, as kernels.cc is. Sums of bytes are integers
// below 2^52, which double holds: so they are exact in any order, and so is what a division is
// rounded down to, since a quotient of numbers as small as MeanPixels asks for is either an integer
// or further from one than double is coarse.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/area.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>
#include <cmath>

#include "augment/rows/floats-inl.h"
#include "augment/rows/resample.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

// Columns [begin, end) by plain loops; Sum is uint32_t for bytes and double for floats.
template <typename Sum, typename T>
void SumRest(const T* in, int64_t stride, const uint32_t* weights, int64_t rows, int64_t begin,
             int64_t end, double* out) {
  constexpr int64_t kPiece = 512;
  Sum sums[kPiece];
  for (; begin < end; begin += kPiece) {
    const int64_t count = std::min(end - begin, kPiece);
    std::fill_n(sums, count, Sum{});
    for (int64_t j = 0; j < rows; ++j) {
      AddWeighed(in + j * stride + begin, static_cast<Sum>(weights[j]), count, sums);
    }
    for (int64_t i = 0; i < count; ++i) out[begin + i] = static_cast<double>(sums[i]);
  }
}

HWY_INLINE uint8_t Mean(double total, double area, uint8_t) {
  return static_cast<uint8_t>((total + std::floor(area / 2)) / area);
}
HWY_INLINE float Mean(double total, double area, float) { return static_cast<float>(total / area); }

// Pixels from `begin` on; kGroup channels of each are added up at once: all of them, or one.
template <int kGroup, typename T>
void MeansFrom(int64_t begin, const double* sums, int64_t channels,
               const PixelWeights<double>& columns, double area, T* out) {
  out += begin * channels;
  for (int64_t x = begin; x < columns.count; ++x) {
    const auto [first, count] = columns.ranges[x];
    const double* const weights = columns.weights + x * columns.stride;
    for (int64_t c = 0; c < channels; c += kGroup) {
      const double* const from = sums + first * channels + c;
      double totals[kGroup] = {};
      for (int64_t j = 0; j < count; ++j) {
        for (int k = 0; k < kGroup; ++k) totals[k] += weights[j] * from[j * channels + k];
      }
      for (const double total : totals) *out++ = Mean(total, area, T());
    }
  }
}

#if HWY_TARGET > HWY_AVX2  // whose vectors are too short
void SumByteRows(const uint8_t* in, int64_t stride, const uint32_t* weights, int64_t rows,
                 int64_t count, double* sums) {
  SumRest<uint32_t>(in, stride, weights, rows, 0, count, sums);
}
void SumFloatRows(const float* in, int64_t stride, const uint32_t* weights, int64_t rows,
                  int64_t count, double* sums) {
  SumRest<double>(in, stride, weights, rows, 0, count, sums);
}
template <typename T>
int64_t MeanVectors(const double*, int64_t, const PixelWeights<double>&, double, T*) {
  return 0;
}
#else
using Doubles = hn::CappedTag<double, 8>;
using DoublesV = hn::Vec<Doubles>;
using Words = hn::Rebind<uint32_t, Doubles>;
constexpr int64_t kDoubles = static_cast<int64_t>(hn::MaxLanes(Doubles()));
constexpr int kBlock = 4;

// As the low bits of 2^52.
HWY_INLINE DoublesV ToDoubles(hn::Vec<Words> words) {
  constexpr Doubles d;
  constexpr hn::RebindToUnsigned<Doubles> bits;
  constexpr double kTerm = 0x1p52;
  const DoublesV term = hn::Set(d, kTerm);
  const auto high = hn::Or(hn::PromoteTo(bits, words), hn::BitCast(bits, term));
  return hn::Sub(hn::BitCast(d, high), term);
}

void SumByteRows(const uint8_t* HWY_RESTRICT in, int64_t stride,
                 const uint32_t* HWY_RESTRICT weights, int64_t rows, int64_t count,
                 double* HWY_RESTRICT sums) {
  constexpr Words w;
  constexpr hn::RebindToSigned<Words> s;
  constexpr hn::Rebind<uint8_t, Words> bytes;
  int64_t i = 0;
  for (; i + kBlock * kDoubles <= count; i += kBlock * kDoubles) {
    hn::Vec<Words> total[kBlock];
    for (int b = 0; b < kBlock; ++b) total[b] = hn::Zero(w);
    for (int64_t j = 0; j < rows; ++j) {
      const auto weight = hn::Set(w, weights[j]);
      for (int b = 0; b < kBlock; ++b) {
        const auto value = hn::LoadU(bytes, in + j * stride + i + b * kDoubles);
        total[b] = hn::Add(total[b], hn::Mul(weight, hn::BitCast(w, hn::PromoteTo(s, value))));
      }
    }
    for (int b = 0; b < kBlock; ++b) {
      hn::StoreU(ToDoubles(total[b]), Doubles(), sums + i + b * kDoubles);
    }
  }
  SumRest<uint32_t>(in, stride, weights, rows, i, count, sums);
}

void SumFloatRows(const float* HWY_RESTRICT in, int64_t stride,
                  const uint32_t* HWY_RESTRICT weights, int64_t rows, int64_t count,
                  double* HWY_RESTRICT sums) {
  constexpr Doubles d;
  constexpr hn::Rebind<float, Doubles> floats;
  int64_t i = 0;
  for (; i + kBlock * kDoubles <= count; i += kBlock * kDoubles) {
    DoublesV total[kBlock];
    for (int b = 0; b < kBlock; ++b) total[b] = hn::Zero(d);
    for (int64_t j = 0; j < rows; ++j) {
      const DoublesV weight = hn::Set(d, static_cast<double>(weights[j]));
      for (int b = 0; b < kBlock; ++b) {
        const auto value = hn::LoadU(floats, in + j * stride + i + b * kDoubles);
        total[b] = hn::Add(total[b], hn::Mul(weight, hn::PromoteTo(d, value)));
      }
    }
    for (int b = 0; b < kBlock; ++b) hn::StoreU(total[b], d, sums + i + b * kDoubles);
  }
  SumRest<double>(in, stride, weights, rows, i, count, sums);
}

using Pixel = hn::FixedTag<double, 4>;
using PixelV = hn::Vec<Pixel>;

HWY_INLINE void StoreMean(PixelV total, double area, uint8_t* out) {
  constexpr Pixel d;
  constexpr hn::FixedTag<int32_t, 4> words;
  constexpr hn::FixedTag<uint8_t, 4> bytes;
  const PixelV mean = hn::Div(hn::Add(total, hn::Set(d, std::floor(area / 2))), hn::Set(d, area));
  hn::StoreU(hn::DemoteTo(bytes, hn::DemoteTo(words, mean)), bytes, out);
}
HWY_INLINE void StoreMean(PixelV total, double area, float* out) {
  constexpr hn::FixedTag<float, 4> floats;
  hn::StoreU(hn::DemoteTo(floats, hn::Div(total, hn::Set(Pixel(), area))), floats, out);
}

// All pixels but the last, behind which one value would be written. Returns how many.
template <typename T>
HWY_INLINE int64_t MeanVectors(const double* HWY_RESTRICT sums, int64_t channels,
                               const PixelWeights<double>& columns, double area,
                               T* HWY_RESTRICT out) {
  if (channels != 3 && channels != 4) return 0;
  constexpr Pixel d;
  for (int64_t x = 0; x + 1 < columns.count; ++x, out += channels) {
    const auto [first, count] = columns.ranges[x];
    const double* const weights = columns.weights + x * columns.stride;
    const double* const from = sums + first * channels;
    PixelV total = hn::Zero(d);
    for (int64_t j = 0; j < count; ++j) {
      total = hn::Add(total, hn::Mul(hn::Set(d, weights[j]), hn::LoadU(d, from + j * channels)));
    }
    StoreMean(total, area, out);
  }
  return columns.count - 1;
}
#endif

template <typename T>
void MeansOf(const double* sums, int64_t channels, const PixelWeights<double>& columns, double area,
             T* out) {
  const int64_t done = MeanVectors(sums, channels, columns, area, out);
  if (channels == 3) return MeansFrom<3>(done, sums, channels, columns, area, out);
  MeansFrom<1>(done, sums, channels, columns, area, out);
}

void ByteMeans(const double* sums, int64_t channels, const PixelWeights<double>& columns,
               double area, uint8_t* out) {
  MeansOf(sums, channels, columns, area, out);
}
void FloatMeans(const double* sums, int64_t channels, const PixelWeights<double>& columns,
                double area, float* out) {
  MeansOf(sums, channels, columns, area, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(SumByteRows);
HWY_EXPORT(SumFloatRows);
HWY_EXPORT(ByteMeans);
HWY_EXPORT(FloatMeans);

void SumRows(const uint8_t* in, int64_t stride, const uint32_t* weights, int64_t rows,
             int64_t count, double* sums) {
  HWY_DYNAMIC_DISPATCH(SumByteRows)(in, stride, weights, rows, count, sums);
}
void SumRows(const float* in, int64_t stride, const uint32_t* weights, int64_t rows, int64_t count,
             double* sums) {
  HWY_DYNAMIC_DISPATCH(SumFloatRows)(in, stride, weights, rows, count, sums);
}
void MeanPixels(const double* sums, int64_t channels, const PixelWeights<double>& columns,
                double area, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ByteMeans)(sums, channels, columns, area, out);
}
void MeanPixels(const double* sums, int64_t channels, const PixelWeights<double>& columns,
                double area, float* out) {
  HWY_DYNAMIC_DISPATCH(FloatMeans)(sums, channels, columns, area, out);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
