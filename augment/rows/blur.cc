// Compiled once for each set of instructions, as kernels.cc is.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/blur.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>

#include "augment/rows/color.h"
#include "augment/rows/floats-inl.h"
#include "augment/rows/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void AddScaled(const T* HWY_RESTRICT in, float weight, int64_t count,
                          float* HWY_RESTRICT sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<float>(in[i]) * weight;
}

// Values [begin, end) by plain loops, a piece at a time that the first cache holds.
template <typename T>
void BlurRest(const T* const* rows, const float* weights, int64_t taps, int64_t begin, int64_t end,
              float* HWY_RESTRICT out) {
  constexpr int64_t kPiece = 512;
  for (; begin < end; begin += kPiece) {
    const int64_t count = std::min(end - begin, kPiece);
    float* const sums = out + begin;
    std::fill_n(sums, count, 0.0f);
    for (int64_t k = 0; k < taps; ++k) AddScaled(rows[k] + begin, weights[k], count, sums);
  }
}

#if HWY_TARGET == HWY_SCALAR
template <typename T>
void BlurOf(const T* const* rows, const float* weights, int64_t taps, int64_t count, float* out) {
  BlurRest(rows, weights, taps, 0, count, out);
}
#else
// kBlock registers of sums, which stay registers over all rows.
template <int kBlock, typename T>
HWY_INLINE void BlurBlock(const T* const* rows, const float* weights, int64_t taps, int64_t begin,
                          float* out) {
  constexpr Floats d;
  FloatsV sums[kBlock];
  for (int b = 0; b < kBlock; ++b) sums[b] = hn::Zero(d);
  for (int64_t k = 0; k < taps; ++k) {
    const FloatsV weight = hn::Set(d, weights[k]);
    for (int b = 0; b < kBlock; ++b) {
      const FloatsV value = LoadFloats(rows[k] + begin + b * kLanes);
      sums[b] = hn::Add(sums[b], hn::Mul(value, weight));
    }
  }
  for (int b = 0; b < kBlock; ++b) hn::StoreU(sums[b], d, out + begin + b * kLanes);
}

template <typename T>
HWY_INLINE void BlurOf(const T* const* rows, const float* weights, int64_t taps, int64_t count,
                       float* out) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) BlurBlock<4>(rows, weights, taps, i, out);
  for (; i + kLanes <= count; i += kLanes) BlurBlock<1>(rows, weights, taps, i, out);
  BlurRest(rows, weights, taps, i, count, out);
}
#endif

void BlurBytes(const uint8_t* const* rows, const float* weights, int64_t taps, int64_t count,
               float* out) {
  BlurOf(rows, weights, taps, count, out);
}
void BlurFloats(const float* const* rows, const float* weights, int64_t taps, int64_t count,
                float* out) {
  BlurOf(rows, weights, taps, count, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(BlurBytes);
HWY_EXPORT(BlurFloats);

void BlurRow(const uint8_t* const* rows, const float* weights, int64_t taps, int64_t count,
             float* out) {
  HWY_DYNAMIC_DISPATCH(BlurBytes)(rows, weights, taps, count, out);
}
void BlurRow(const float* const* rows, const float* weights, int64_t taps, int64_t count,
             float* out) {
  HWY_DYNAMIC_DISPATCH(BlurFloats)(rows, weights, taps, count, out);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
