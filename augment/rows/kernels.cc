// Compiled once for each set of instructions (foreach_target.h includes this file again), chosen
// when they are called first. HWY_SCALAR is what every x86-64 has, one lane at a time or as the
// compiler makes vectors of it: the reference, and enough for processors without AVX2.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/kernels.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>
#include <cstring>

#include "augment/rows/floats-inl.h"
#include "augment/rows/kernels.h"
#include "base/simd.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

// Vectors are of four pixels at most, which is what BlendColumns3 takes at once.
constexpr bool kVectors = kLanes > 1;
constexpr int64_t kPixels = kVectors ? kLanes / 4 : 1;
static_assert(kTapsPerStep % kPixels == 0 && kLanes <= kRowSlack && 16 % kLanes == 0);

// Added and subtracted again it rounds floats of up to 2^22 half to even: 1.5 * 2^23.
constexpr float kRoundingTerm = 12582912.0f;

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

// Highway 1.0 has no lookup in two registers, and lookups in each with a choice between them would
// be three instructions for one.
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

void CutBytes(const float* HWY_RESTRICT in, int64_t count, uint8_t* HWY_RESTRICT out) {
  constexpr Floats d;
  const hn::Rebind<uint8_t, Floats> bytes;
  const bool done = ForVectors(count, [&](int64_t i) HWY_ATTR {
    const FloatsV cut = hn::Min(hn::Max(hn::LoadU(d, in + i), hn::Zero(d)), hn::Set(d, 255.0f));
    hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(cut)), bytes, out + i);
  });
  for (int64_t i = 0; !done && i < count; ++i) {
    const float cut = std::min(std::max(in[i], 0.0f), 255.0f);
    out[i] = static_cast<uint8_t>(static_cast<int32_t>((cut + kRoundingTerm) - kRoundingTerm));
  }
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
HWY_EXPORT(CutBytes);
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
void CutToBytes(const float* in, int64_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(CutBytes)(in, count, out);
}
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
