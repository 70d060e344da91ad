// Compiled once for each set of instructions, as kernels.cc is.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/value.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <cstring>

#include "augment/rows/floats-inl.h"
#include "augment/rows/kernels.h"
#include "base/half.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

static_assert(16 % kLanes == 0);

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

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(ScaleByteRow);
HWY_EXPORT(ScaleFloatRow);
HWY_EXPORT(HalfRow);
HWY_EXPORT(BFloatRow);
HWY_EXPORT(MixBytes);
HWY_EXPORT(MixFloats);
HWY_EXPORT(MixHalves);
HWY_EXPORT(MixBFloats);

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

}  // namespace millrace::augment
#endif  // HWY_ONCE
