// Compiled once for each set of instructions (foreach_target.h includes this file again), chosen
// when they are called first. HWY_SCALAR is what every x86-64 has, one lane at a time or as the
// compiler makes vectors of it: the reference, and enough for processors without AVX2.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/row_kernels.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>
#include <cstring>

#include "augment/row_kernels_internal.h"
#include "base/half.h"
#include "base/simd.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using FloatsV = hn::Vec<Floats>;
// Of four pixels at most, which is what BlendColumns3 takes at once.
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Floats()));
constexpr bool kVectors = kLanes > 1;
constexpr int64_t kPixels = kVectors ? kLanes / 4 : 1;
static_assert(kTapsPerStep % kPixels == 0 && kLanes <= kRowSlack && 16 % kLanes == 0);

HWY_INLINE FloatsV LoadFloats(const uint8_t* in) {
  constexpr Floats d;
  const hn::Rebind<uint8_t, Floats> bytes;
  const hn::Rebind<int32_t, Floats> words;
  return hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, in)));
}
HWY_INLINE FloatsV LoadFloats(const float* in) { return hn::LoadU(Floats(), in); }

// Added and subtracted again it rounds floats of up to 2^22 half to even: 1.5 * 2^23.
constexpr float kRoundingTerm = 12582912.0f;

// Whole vectors, the last of which may lie over the one before; `f` must not mind. False: too few.
template <typename F>
HWY_INLINE bool ForVectors(int64_t count, const F& f) {
  if (count < kLanes) return false;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i);
  if (i < count) f(count - kLanes);
  return true;
}

template <typename T>
HWY_INLINE void BlendRowsOf(const T* HWY_RESTRICT top, const T* HWY_RESTRICT bottom, float weight,
                            int64_t count, float* HWY_RESTRICT out) {
  const FloatsV w = hn::Set(Floats(), weight);
  const bool done = ForVectors(count, [&](int64_t i) HWY_ATTR {
    const FloatsV a = LoadFloats(top + i);
    const FloatsV b = LoadFloats(bottom + i);
    hn::StoreU(hn::Add(a, hn::Mul(hn::Sub(b, a), w)), Floats(), out + i);
  });
  for (int64_t i = 0; !done && i < count; ++i) {
    const auto a = static_cast<float>(top[i]);
    const auto b = static_cast<float>(bottom[i]);
    out[i] = a + (b - a) * weight;
  }
}

void BlendByteRows(const uint8_t* top, const uint8_t* bottom, float weight, int64_t count,
                   float* out) {
  BlendRowsOf(top, bottom, weight, count, out);
}
void BlendFloatRows(const float* top, const float* bottom, float weight, int64_t count,
                    float* out) {
  BlendRowsOf(top, bottom, weight, count, out);
}

#if HWY_TARGET == HWY_SCALAR
template <bool kRound, bool kScale>
void BlendColumnsAs(const float* row, const ColumnTaps& taps, const PixelScaling& scaling,
                    float* out) {
  for (int64_t i = 0; i < taps.count; ++i, out += 3) {
    for (int c = 0; c < 3; ++c) {
      const float left = row[taps.lower[i] + c];
      const float right = row[taps.upper[i] + c];
      float value = left + (right - left) * taps.weights[4 * i];
      if (kRound) value = (value + kRoundingTerm) - kRoundingTerm;
      out[c] = kScale ? value * scaling.factor[c] - scaling.offset[c] : value;
    }
  }
}
#else
// Four floats from each of the places, side by side.
template <class D>
HWY_INLINE hn::Vec<D> Gather(D d, const float* HWY_RESTRICT row, const int32_t* HWY_RESTRICT at) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, row + at[0]);
  } else {
    const hn::Half<D> half;
    constexpr size_t kHalf = hn::MaxLanes(half) / 4;
    return hn::Combine(d, Gather(half, row, at + kHalf), Gather(half, row, at));
  }
}

// Moves the fourth of each four lanes behind all others.
HWY_INLINE FloatsV PackPixels(FloatsV pixels) {
  if constexpr (kLanes == 4) return pixels;
  alignas(64) static constexpr int32_t kOrder[16] = {0,  1,  2,  4,  5, 6, 8,  9,
                                                     10, 12, 13, 14, 3, 7, 11, 15};
  alignas(64) static constexpr int32_t kOrder8[8] = {0, 1, 2, 4, 5, 6, 3, 7};
  return hn::TableLookupLanes(pixels,
                              hn::SetTableIndices(Floats(), kLanes == 16 ? kOrder : kOrder8));
}

template <bool kRound, bool kScale>
HWY_INLINE void BlendColumnsAs(const float* HWY_RESTRICT row, const ColumnTaps& taps,
                               const PixelScaling& scaling, float* HWY_RESTRICT out) {
  constexpr Floats d;
  const FloatsV term = hn::Set(d, kRoundingTerm);
  const FloatsV factor = hn::LoadDup128(d, scaling.factor);
  const FloatsV offset = hn::LoadDup128(d, scaling.offset);
  for (int64_t i = 0; i < taps.count; i += kPixels, out += 3 * kPixels) {
    const FloatsV left = Gather(d, row, taps.lower + i);
    const FloatsV right = Gather(d, row, taps.upper + i);
    const FloatsV weight = hn::LoadU(d, taps.weights + 4 * i);
    FloatsV value = hn::Add(left, hn::Mul(hn::Sub(right, left), weight));
    if constexpr (kRound) value = hn::Sub(hn::Add(value, term), term);
    if constexpr (kScale) value = hn::Sub(hn::Mul(value, factor), offset);
    hn::StoreU(PackPixels(value), d, out);
  }
}
#endif

void BlendColumns(const float* row, const ColumnTaps& taps, const PixelScaling& scaling,
                  float* out) {
  if (scaling.round) {
    if (scaling.scale) return BlendColumnsAs<true, true>(row, taps, scaling, out);
    return BlendColumnsAs<true, false>(row, taps, scaling, out);
  }
  if (scaling.scale) return BlendColumnsAs<false, true>(row, taps, scaling, out);
  BlendColumnsAs<false, false>(row, taps, scaling, out);
}

// Highway 1.0 has no lookup in two registers, and lookups in each with a choice between them would be
// three instructions for one.
#if HWY_TARGET <= HWY_AVX3
constexpr int64_t kWindowLanes = kWindowValues;

using IndicesV = hn::Vec<hn::RebindToSigned<Floats>>;

// `at` of the 32 floats at `window`, or of the 64.
template <bool kWide>
HWY_INLINE FloatsV LookUp(const FloatsV (&window)[4], IndicesV at) {
  const auto in_two = [&](FloatsV a, FloatsV b) HWY_ATTR {
    return FloatsV{_mm512_permutex2var_ps(a.raw, at.raw, b.raw)};
  };
  const FloatsV near = in_two(window[0], window[1]);
  if constexpr (!kWide) return near;
  constexpr hn::RebindToSigned<Floats> words;
  const auto is_far = hn::RebindMask(Floats(), hn::TestBit(at, hn::Set(words, 32)));
  return hn::IfThenElse(is_far, in_two(window[2], window[3]), near);
}

// The factors of the channels of a vector that begins with channel `first`.
HWY_INLINE FloatsV OfChannels(const float* HWY_RESTRICT each, int first) {
  alignas(64) static constexpr int32_t kChannels[18] = {0, 1, 2, 0, 1, 2, 0, 1, 2,
                                                        0, 1, 2, 0, 1, 2, 0, 1, 2};
  constexpr hn::RebindToSigned<Floats> words;
  return hn::TableLookupLanes(hn::LoadDup128(Floats(), each),
                              hn::IndicesFromVec(Floats(), hn::LoadU(words, kChannels + first)));
}

template <bool kWide, bool kRound, bool kScale>
HWY_INLINE void BlendWindowsAs(const float* HWY_RESTRICT row, const ColumnWindows& windows,
                               const PixelScaling& scaling, float* HWY_RESTRICT out) {
  constexpr Floats d;
  constexpr hn::RebindToSigned<Floats> words;
  const FloatsV term = hn::Set(d, kRoundingTerm);
  const auto blend = [&](int64_t i, FloatsV factor, FloatsV offset) HWY_ATTR {
    const float* const from = row + windows.first[i];
    FloatsV window[4];
    for (int64_t part = 0; part < (kWide ? 4 : 2); ++part) {
      window[part] = hn::LoadU(d, from + part * kLanes);
    }
    const FloatsV left = LookUp<kWide>(window, hn::LoadU(words, windows.left + i * kLanes));
    const FloatsV right = LookUp<kWide>(window, hn::LoadU(words, windows.right + i * kLanes));
    const FloatsV weight = hn::LoadU(d, windows.weights + i * kLanes);
    FloatsV value = hn::Add(left, hn::Mul(hn::Sub(right, left), weight));
    if constexpr (kRound) value = hn::Sub(hn::Add(value, term), term);
    if constexpr (kScale) value = hn::Sub(hn::Mul(value, factor), offset);
    hn::StoreU(value, d, out + i * kLanes);
  };
  // 16 values further every channel is the next one.
  static_assert(kWindowValues % 3 == 1);
  const FloatsV factors[3] = {OfChannels(scaling.factor, 0), OfChannels(scaling.factor, 1),
                              OfChannels(scaling.factor, 2)};
  const FloatsV offsets[3] = {OfChannels(scaling.offset, 0), OfChannels(scaling.offset, 1),
                              OfChannels(scaling.offset, 2)};
  int64_t i = 0;
  for (; i + 3 <= windows.count; i += 3) {
    blend(i, factors[0], offsets[0]);
    blend(i + 1, factors[1], offsets[1]);
    blend(i + 2, factors[2], offsets[2]);
  }
  for (int phase = 0; i < windows.count; ++i, ++phase) blend(i, factors[phase], offsets[phase]);
}
#else
constexpr int64_t kWindowLanes = 0;

template <bool kWide, bool kRound, bool kScale>
void BlendWindowsAs(const float*, const ColumnWindows&, const PixelScaling&, float*) {}
#endif

int64_t WindowLanes() { return kWindowLanes; }

template <bool kWide>
HWY_INLINE void BlendWindowsOf(const float* row, const ColumnWindows& windows,
                               const PixelScaling& scaling, float* out) {
  if (scaling.round) {
    if (scaling.scale) return BlendWindowsAs<kWide, true, true>(row, windows, scaling, out);
    return BlendWindowsAs<kWide, true, false>(row, windows, scaling, out);
  }
  if (scaling.scale) return BlendWindowsAs<kWide, false, true>(row, windows, scaling, out);
  BlendWindowsAs<kWide, false, false>(row, windows, scaling, out);
}

void BlendWindows(const float* row, const ColumnWindows& windows, const PixelScaling& scaling,
                  float* out) {
  if (windows.wide) return BlendWindowsOf<true>(row, windows, scaling, out);
  BlendWindowsOf<false>(row, windows, scaling, out);
}

void RoundBytes(const float* HWY_RESTRICT in, int64_t count, uint8_t* HWY_RESTRICT out) {
  constexpr Floats d;
  const hn::Rebind<uint8_t, Floats> bytes;
  const bool done = ForVectors(count, [&](int64_t i) HWY_ATTR {
    hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(hn::LoadU(d, in + i))), bytes, out + i);
  });
  for (int64_t i = 0; !done && i < count; ++i) {
    out[i] = static_cast<uint8_t>((in[i] + kRoundingTerm) - kRoundingTerm);
  }
}

template <typename T>
HWY_INLINE void ScaleRowOf(const T* HWY_RESTRICT in, int64_t count,
                           const float* HWY_RESTRICT factor, const float* HWY_RESTRICT offset,
                           int64_t period, float* HWY_RESTRICT out) {
  constexpr Floats d;
  int64_t i = 0, at = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const FloatsV scaled = hn::Mul(LoadFloats(in + i), hn::LoadU(d, factor + at));
    hn::StoreU(hn::Sub(scaled, hn::LoadU(d, offset + at)), d, out + i);
    at = at + kLanes == period ? 0 : at + kLanes;
  }
  for (; i < count; ++i, ++at) out[i] = static_cast<float>(in[i]) * factor[at] - offset[at];
}

void ScaleByteRow(const uint8_t* in, int64_t count, const float* factor, const float* offset,
                  int64_t period, float* out) {
  ScaleRowOf(in, count, factor, offset, period, out);
}
void ScaleFloatRow(const float* in, int64_t count, const float* factor, const float* offset,
                   int64_t period, float* out) {
  ScaleRowOf(in, count, factor, offset, period, out);
}

using Words = hn::RebindToUnsigned<Floats>;
using WordsV = hn::Vec<Words>;
using Shorts = hn::Rebind<uint16_t, Floats>;

// The steps of base/half.h.
HWY_INLINE WordsV HalfBits(FloatsV value) {
  constexpr Floats d;
  constexpr Words w;
  const WordsV bits = hn::BitCast(w, value);
  const WordsV sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(w, 0x8000));
  const WordsV magnitude = hn::And(bits, hn::Set(w, 0x7FFFFFFF));
  const FloatsV one_half = hn::Set(d, 0.5f);
  const WordsV small = hn::Sub(hn::BitCast(w, hn::Add(hn::BitCast(d, magnitude), one_half)),
                               hn::BitCast(w, one_half));
  const WordsV odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(w, 1));
  const WordsV rounded =
      hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, hn::Set(w, 0x38000000 - 0xFFF)), odd));
  // Compared as signed numbers, which magnitudes are too.
  const hn::RebindToSigned<Words> s;
  const auto above = [&](uint32_t limit) HWY_ATTR {
    return hn::RebindMask(
        w, hn::Gt(hn::BitCast(s, magnitude), hn::Set(s, static_cast<int32_t>(limit) - 1)));
  };
  WordsV half = hn::IfThenElse(above(0x38800000), rounded, small);
  half = hn::IfThenElse(above(0x477FF000), hn::Set(w, 0x7C00), half);
  half = hn::IfThenElse(above(0x7F800001), hn::Set(w, 0x7E00), half);
  return hn::Or(sign, half);
}

HWY_INLINE WordsV BFloatBits(FloatsV value) {
  constexpr Words w;
  const WordsV bits = hn::BitCast(w, value);
  const WordsV high = hn::ShiftRight<16>(bits);
  const WordsV odd = hn::And(high, hn::Set(w, 1));
  const WordsV rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(w, 0x7FFF)), odd));
  const auto is_nan = hn::RebindMask(w, hn::IsNaN(value));
  return hn::IfThenElse(is_nan, hn::Or(high, hn::Set(w, 0x40)), rounded);
}

// The low halves; none is above 0xFFFF.
HWY_INLINE void StoreShorts(WordsV words, uint16_t* out) {
  const hn::RebindToSigned<Words> s;
  hn::StoreU(hn::DemoteTo(Shorts(), hn::BitCast(s, words)), Shorts(), out);
}

void HalfRow(const float* HWY_RESTRICT in, int64_t count, uint16_t* HWY_RESTRICT out) {
  const bool done = ForVectors(
      count, [&](int64_t i) HWY_ATTR { StoreShorts(HalfBits(LoadFloats(in + i)), out + i); });
  for (int64_t i = 0; !done && i < count; ++i) out[i] = ToHalf(in[i]).bits;
}

void BFloatRow(const float* HWY_RESTRICT in, int64_t count, uint16_t* HWY_RESTRICT out) {
  const bool done = ForVectors(
      count, [&](int64_t i) HWY_ATTR { StoreShorts(BFloatBits(LoadFloats(in + i)), out + i); });
  for (int64_t i = 0; !done && i < count; ++i) out[i] = ToBFloat(in[i]).bits;
}

// The steps of base/half.h.
HWY_INLINE FloatsV FloatsOfHalf(WordsV half) {
  constexpr Floats d;
  constexpr Words w;
  const hn::RebindToSigned<Words> s;
  const WordsV sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(w, 0x8000)));
  const WordsV magnitude = hn::And(half, hn::Set(w, 0x7FFF));
  const auto below = [&](int32_t limit) HWY_ATTR {
    return hn::RebindMask(w, hn::Lt(hn::BitCast(s, magnitude), hn::Set(s, limit)));
  };
  const WordsV small =
      hn::BitCast(w, hn::Mul(hn::ConvertTo(d, hn::BitCast(s, magnitude)), hn::Set(d, 0x1p-24f)));
  const WordsV normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(w, 112u << 23));
  const WordsV not_finite = hn::Or(normal, hn::Set(w, 0x7F800000));
  WordsV wide = hn::IfThenElse(below(0x7C00), normal, not_finite);
  wide = hn::IfThenElse(below(0x400), small, wide);
  return hn::BitCast(d, hn::Or(sign, wide));
}

HWY_INLINE WordsV LoadShorts(const void* in) {
  return hn::PromoteTo(Words(), hn::LoadU(Shorts(), static_cast<const uint16_t*>(in)));
}
HWY_INLINE FloatsV LoadFloats(const Half* in) { return FloatsOfHalf(LoadShorts(in)); }
HWY_INLINE FloatsV LoadFloats(const BFloat* in) {
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(LoadShorts(in)));
}

HWY_INLINE void StoreFloats(FloatsV value, uint8_t* out) {
  const hn::Rebind<uint8_t, Floats> bytes;
  hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(value)), bytes, out);
}
HWY_INLINE void StoreFloats(FloatsV value, float* out) { hn::StoreU(value, Floats(), out); }
HWY_INLINE void StoreFloats(FloatsV value, Half* out) { StoreShorts(HalfBits(value), &out->bits); }
HWY_INLINE void StoreFloats(FloatsV value, BFloat* out) {
  StoreShorts(BFloatBits(value), &out->bits);
}

template <typename T>
HWY_INLINE void MixRowOf(const T* other, float others, float kept, int64_t count, T* own) {
  const FloatsV others_share = hn::Set(Floats(), others), kept_share = hn::Set(Floats(), kept);
  const auto mix = [&](const T* from, T* to) HWY_ATTR {
    const FloatsV taken = hn::Mul(LoadFloats(from), others_share);
    StoreFloats(hn::Add(taken, hn::Mul(LoadFloats(to), kept_share)), to);
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) mix(other + i, own + i);
  if (i >= count) return;
  // No vector may lie over another one, since what is mixed is mixed once.
  T last_other[kLanes] = {}, last_own[kLanes] = {};
  const size_t bytes = static_cast<size_t>(count - i) * sizeof(T);
  std::memcpy(last_other, other + i, bytes);
  std::memcpy(last_own, own + i, bytes);
  mix(last_other, last_own);
  std::memcpy(own + i, last_own, bytes);
}

void MixBytes(const uint8_t* other, float others, float kept, int64_t count, uint8_t* own) {
  MixRowOf(other, others, kept, count, own);
}
void MixFloats(const float* other, float others, float kept, int64_t count, float* own) {
  MixRowOf(other, others, kept, count, own);
}
void MixHalves(const Half* other, float others, float kept, int64_t count, Half* own) {
  MixRowOf(other, others, kept, count, own);
}
void MixBFloats(const BFloat* other, float others, float kept, int64_t count, BFloat* own) {
  MixRowOf(other, others, kept, count, own);
}

template <typename T>
HWY_INLINE void SplitRowOf(const T* HWY_RESTRICT in, int64_t pixels, int64_t plane,
                           T* HWY_RESTRICT out) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= pixels; i += lanes) {
    hn::Vec<decltype(d)> a, b, c;
    hn::LoadInterleaved3(d, in + 3 * i, a, b, c);
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + plane + i);
    hn::StoreU(c, d, out + 2 * plane + i);
  }
  for (; i < pixels; ++i) {
    for (int64_t channel = 0; channel < 3; ++channel) {
      out[channel * plane + i] = in[3 * i + channel];
    }
  }
}

void SplitFloats(const float* in, int64_t pixels, int64_t plane, float* out) {
  SplitRowOf(in, pixels, plane, out);
}
void SplitShorts(const uint16_t* in, int64_t pixels, int64_t plane, uint16_t* out) {
  SplitRowOf(in, pixels, plane, out);
}
void SplitBytes(const uint8_t* in, int64_t pixels, int64_t plane, uint8_t* out) {
  SplitRowOf(in, pixels, plane, out);
}

void Stream(const uint8_t* HWY_RESTRICT in, size_t bytes, uint8_t* HWY_RESTRICT out) {
  const hn::CappedTag<uint8_t, 64> d;
  const size_t lanes = hn::Lanes(d);
  const size_t unaligned = (reinterpret_cast<uintptr_t>(out) | bytes) % lanes;
  if (!kVectors || unaligned != 0) return static_cast<void>(std::memcpy(out, in, bytes));
  for (size_t i = 0; i < bytes; i += lanes) hn::Stream(hn::LoadU(d, in + i), d, out + i);
}

int64_t Level() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(BlendByteRows);
HWY_EXPORT(BlendFloatRows);
HWY_EXPORT(BlendColumns);
HWY_EXPORT(WindowLanes);
HWY_EXPORT(BlendWindows);
HWY_EXPORT(RoundBytes);
HWY_EXPORT(ScaleByteRow);
HWY_EXPORT(ScaleFloatRow);
HWY_EXPORT(HalfRow);
HWY_EXPORT(BFloatRow);
HWY_EXPORT(MixBytes);
HWY_EXPORT(MixFloats);
HWY_EXPORT(MixHalves);
HWY_EXPORT(MixBFloats);
HWY_EXPORT(SplitFloats);
HWY_EXPORT(SplitShorts);
HWY_EXPORT(SplitBytes);
HWY_EXPORT(Stream);
HWY_EXPORT(Level);

void BlendRows(const uint8_t* top, const uint8_t* bottom, float weight, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(BlendByteRows)(top, bottom, weight, count, out);
}
void BlendRows(const float* top, const float* bottom, float weight, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(BlendFloatRows)(top, bottom, weight, count, out);
}
void BlendColumns3(const float* row, const ColumnTaps& taps, const PixelScaling& scaling,
                   float* out) {
  HWY_DYNAMIC_DISPATCH(BlendColumns)(row, taps, scaling, out);
}
bool HasColumnWindows() { return HWY_DYNAMIC_DISPATCH(WindowLanes)() == kWindowValues; }
void BlendWindows3(const float* row, const ColumnWindows& windows, const PixelScaling& scaling,
                   float* out) {
  HWY_DYNAMIC_DISPATCH(BlendWindows)(row, windows, scaling, out);
}
void RoundToBytes(const float* in, int64_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(RoundBytes)(in, count, out);
}
void ScaleRow(const uint8_t* in, int64_t count, const float* factor, const float* offset,
              int64_t period, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleByteRow)(in, count, factor, offset, period, out);
}
void ScaleRow(const float* in, int64_t count, const float* factor, const float* offset,
              int64_t period, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleFloatRow)(in, count, factor, offset, period, out);
}
void ToHalfRow(const float* in, int64_t count, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(HalfRow)(in, count, out);
}
void ToBFloatRow(const float* in, int64_t count, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(BFloatRow)(in, count, out);
}
void MixRow(const uint8_t* other, float others, float kept, int64_t count, uint8_t* own) {
  HWY_DYNAMIC_DISPATCH(MixBytes)(other, others, kept, count, own);
}
void MixRow(const float* other, float others, float kept, int64_t count, float* own) {
  HWY_DYNAMIC_DISPATCH(MixFloats)(other, others, kept, count, own);
}
void MixRow(const Half* other, float others, float kept, int64_t count, Half* own) {
  HWY_DYNAMIC_DISPATCH(MixHalves)(other, others, kept, count, own);
}
void MixRow(const BFloat* other, float others, float kept, int64_t count, BFloat* own) {
  HWY_DYNAMIC_DISPATCH(MixBFloats)(other, others, kept, count, own);
}
void SplitRow3(const float* in, int64_t pixels, int64_t plane, float* out) {
  HWY_DYNAMIC_DISPATCH(SplitFloats)(in, pixels, plane, out);
}
void SplitRow3(const uint16_t* in, int64_t pixels, int64_t plane, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(SplitShorts)(in, pixels, plane, out);
}
void SplitRow3(const uint8_t* in, int64_t pixels, int64_t plane, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(SplitBytes)(in, pixels, plane, out);
}
void StreamRow(const void* in, size_t bytes, void* out) {
  HWY_DYNAMIC_DISPATCH(Stream)
  (static_cast<const uint8_t*>(in), bytes, static_cast<uint8_t*>(out));
}
void EndStreaming() { hwy::FlushStream(); }

std::vector<int64_t> RowKernelLevels() { return hwy::SupportedAndGeneratedTargets(); }
const char* RowKernelLevelName(int64_t level) { return hwy::TargetName(level); }
int64_t RowKernelLevelInUse() { return HWY_DYNAMIC_DISPATCH(Level)(); }
void UseRowKernelLevel(int64_t level) { hwy::SetSupportedTargetsForTest(level); }

bool LimitRowKernels() {
  // Of Highway's numbers for x86-64 a better target has a lower bit.
  if (SimdLimit() == SimdLevel::kAvx512) return false;
  hwy::DisableTargets(SimdLimit() == SimdLevel::kAvx2 ? HWY_AVX2 - 1 : 2 * HWY_AVX2 - 1);
  return true;
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
