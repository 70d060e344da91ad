// Compiled once for each set of instructions, as kernels.cc is.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/bicubic.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include "augment/rows/floats-inl.h"
#include "augment/rows/resample.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
template <typename T>
void FourRowsOf(const FourRows<T>& in, int64_t count, float* HWY_RESTRICT out) {
  const T* HWY_RESTRICT a = in.rows[0];
  const T* HWY_RESTRICT b = in.rows[1];
  const T* HWY_RESTRICT c = in.rows[2];
  const T* HWY_RESTRICT d = in.rows[3];
  const float wa = in.weights[0], wb = in.weights[1], wc = in.weights[2], wd = in.weights[3];
  for (int64_t i = 0; i < count; ++i) {
    out[i] = wa * static_cast<float>(a[i]) + wb * static_cast<float>(b[i]) +
             wc * static_cast<float>(c[i]) + wd * static_cast<float>(d[i]);
  }
}

void FourPixelsOf(const float* HWY_RESTRICT row, int64_t channels, const FourPixels& columns,
                  float* HWY_RESTRICT out) {
  for (int64_t i = 0; i < columns.count; ++i) {
    const int32_t* const at = columns.at + 4 * i;
    const float* const w = columns.weights + 4 * i;
    for (int64_t c = 0; c < channels; ++c) {
      *out++ = w[0] * row[at[0] + c] + w[1] * row[at[1] + c] + w[2] * row[at[2] + c] +
               w[3] * row[at[3] + c];
    }
  }
}
#else
template <typename T>
HWY_INLINE float FourOf(const FourRows<T>& in, int64_t i) {
  const auto part = [&](int k) { return in.weights[k] * static_cast<float>(in.rows[k][i]); };
  return part(0) + part(1) + part(2) + part(3);
}

template <typename T>
HWY_INLINE void FourRowsOf(const FourRows<T>& in, int64_t count, float* HWY_RESTRICT out) {
  constexpr Floats d;
  const FourRows<T> from = in;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto part = [&](int k) HWY_ATTR {
      return hn::Mul(hn::Set(d, from.weights[k]), LoadFloats(from.rows[k] + i));
    };
    hn::StoreU(hn::Add(hn::Add(hn::Add(part(0), part(1)), part(2)), part(3)), d, out + i);
  }
  for (; i < count; ++i) out[i] = FourOf(from, i);
}

void FourPixelsOf(const float* HWY_RESTRICT row, int64_t channels, const FourPixels& columns,
                  float* HWY_RESTRICT out) {
  constexpr hn::FixedTag<float, 4> d;
  for (int64_t i = 0; i < columns.count; ++i, out += channels) {
    const int32_t* const at = columns.at + 4 * i;
    const float* const weights = columns.weights + 4 * i;
    for (int64_t c = 0; c < channels; c += 4) {  // the next pixel is written over what is too much
      const auto part = [&](int k) HWY_ATTR {
        return hn::Mul(hn::Set(d, weights[k]), hn::LoadU(d, row + at[k] + c));
      };
      hn::StoreU(hn::Add(hn::Add(hn::Add(part(0), part(1)), part(2)), part(3)), d, out + c);
    }
  }
}
#endif

void FourByteRows(const FourRows<uint8_t>& in, int64_t count, float* out) {
  FourRowsOf(in, count, out);
}
void FourFloatRows(const FourRows<float>& in, int64_t count, float* out) {
  FourRowsOf(in, count, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(FourByteRows);
HWY_EXPORT(FourFloatRows);
HWY_EXPORT(FourPixelsOf);

void WeighFourRows(const FourRows<uint8_t>& in, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(FourByteRows)(in, count, out);
}
void WeighFourRows(const FourRows<float>& in, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(FourFloatRows)(in, count, out);
}
void WeighFourPixels(const float* row, int64_t channels, const FourPixels& columns, float* out) {
  HWY_DYNAMIC_DISPATCH(FourPixelsOf)(row, channels, columns, out);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
