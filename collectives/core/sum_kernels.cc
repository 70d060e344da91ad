// Compiled once for each set of instructions (foreach_target.h includes this file again), chosen
// when SumAndStore is called first. A rank's share is bound by memory: one load per rank and one
// store per copy, plain stores, for those that go past the caches cost 2.7 times as much where data
// is warm.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/core/sum_kernels.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>

#include "base/half.h"
#include "base/simd.h"
#include "collectives/core/sum_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::collectives {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Widened(T) and Narrowed<T>(float) of one element.
HWY_INLINE float Widened(float value) { return value; }
HWY_INLINE float Widened(Half value) { return ToFloat(value); }
HWY_INLINE float Widened(BFloat value) { return ToFloat(value); }
HWY_INLINE void Narrow(float value, float* out) { *out = value; }
HWY_INLINE void Narrow(float value, Half* out) { *out = ToHalf(value); }
HWY_INLINE void Narrow(float value, BFloat* out) { *out = ToBFloat(value); }

// Elsewhere Highway's own conversions to float16 do not round as processors do; loops of one lane
// are what reduce_internal has.
#if HWY_TARGET > HWY_AVX2
constexpr size_t kLanes = 1;
using FloatsV = float;

HWY_INLINE FloatsV AllOf(float value) { return value; }
template <typename T>
HWY_INLINE FloatsV LoadWide(const T* in) {
  return Widened(*in);
}
template <typename T>
HWY_INLINE void StoreNarrow(FloatsV value, T* out) {
  Narrow(value, out);
}
HWY_INLINE FloatsV Plus(FloatsV a, FloatsV b) { return a + b; }
HWY_INLINE FloatsV Over(FloatsV a, FloatsV b) { return a / b; }
#else
using Floats = hn::CappedTag<float, 16>;
using FloatsV = hn::Vec<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using HalfWords = hn::Rebind<uint16_t, Floats>;
constexpr size_t kLanes = hn::MaxLanes(Floats());

HWY_INLINE FloatsV AllOf(float value) { return hn::Set(Floats(), value); }
HWY_INLINE FloatsV Plus(FloatsV a, FloatsV b) { return hn::Add(a, b); }
HWY_INLINE FloatsV Over(FloatsV a, FloatsV b) { return hn::Div(a, b); }

HWY_INLINE FloatsV LoadWide(const float* in) { return hn::LoadU(Floats(), in); }
HWY_INLINE FloatsV LoadWide(const BFloat* in) {
  const auto bits = hn::LoadU(HalfWords(), reinterpret_cast<const uint16_t*>(in));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), bits)));
}
HWY_INLINE FloatsV LoadWide(const Half* in) {
  const hn::Rebind<hwy::float16_t, Floats> halves;
  return hn::PromoteTo(Floats(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(in)));
}

HWY_INLINE void StoreNarrow(FloatsV value, float* out) { hn::StoreU(value, Floats(), out); }
// As ToBFloat: half to even, and a NaN stays one.
HWY_INLINE void StoreNarrow(FloatsV value, BFloat* out) {
  const Words w;
  const auto bits = hn::BitCast(w, value);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(w, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(w, 0x7FFF)), odd));
  const auto nan = hn::Or(upper, hn::Set(w, 0x40));
  const auto is_nan = hn::RebindMask(w, hn::Ne(value, value));
  const auto chosen = hn::IfThenElse(is_nan, nan, rounded);
  const hn::RebindToSigned<Words> signed_words;
  hn::StoreU(hn::DemoteTo(HalfWords(), hn::BitCast(signed_words, chosen)), HalfWords(),
             reinterpret_cast<uint16_t*>(out));
}
HWY_INLINE void StoreNarrow(FloatsV value, Half* out) {
  const hn::Rebind<hwy::float16_t, Floats> halves;
  hn::StoreU(hn::DemoteTo(halves, value), halves, reinterpret_cast<hwy::float16_t*>(out));
}
#endif

template <typename T>
T* At(void* range, size_t i) {
  return static_cast<T*>(range) + i;
}
template <typename T>
const T* At(const void* range, size_t i) {
  return static_cast<const T*>(range) + i;
}

// Elements [i, i + 4 vectors): four sums at a time hide the latency of the additions.
template <typename T, bool kDivide>
HWY_INLINE void SumFour(std::span<const void* const> in, std::span<void* const> out, size_t i,
                        FloatsV divisor) {
  FloatsV a = LoadWide(At<T>(in[0], i));
  FloatsV b = LoadWide(At<T>(in[0], i + kLanes));
  FloatsV c = LoadWide(At<T>(in[0], i + 2 * kLanes));
  FloatsV d = LoadWide(At<T>(in[0], i + 3 * kLanes));
  for (size_t r = 1; r < in.size(); ++r) {
    a = Plus(a, LoadWide(At<T>(in[r], i)));
    b = Plus(b, LoadWide(At<T>(in[r], i + kLanes)));
    c = Plus(c, LoadWide(At<T>(in[r], i + 2 * kLanes)));
    d = Plus(d, LoadWide(At<T>(in[r], i + 3 * kLanes)));
  }
  if constexpr (kDivide) {
    a = Over(a, divisor);
    b = Over(b, divisor);
    c = Over(c, divisor);
    d = Over(d, divisor);
  }
  for (void* const range : out) {
    StoreNarrow(a, At<T>(range, i));
    StoreNarrow(b, At<T>(range, i + kLanes));
    StoreNarrow(c, At<T>(range, i + 2 * kLanes));
    StoreNarrow(d, At<T>(range, i + 3 * kLanes));
  }
}

template <typename T, bool kDivide>
HWY_INLINE void SumOne(std::span<const void* const> in, std::span<void* const> out, size_t i,
                       float divisor) {
  float sum = Widened(*At<T>(in[0], i));
  for (size_t r = 1; r < in.size(); ++r) sum += Widened(*At<T>(in[r], i));
  if constexpr (kDivide) sum /= divisor;
  for (void* const range : out) Narrow(sum, At<T>(range, i));
}

template <typename T>
HWY_INLINE void AddSquares(const T* HWY_RESTRICT values, size_t count,
                           SquareSums& HWY_RESTRICT squares) {
  for (size_t i = 0; i + squares.size() <= count; i += squares.size()) {
    for (size_t k = 0; k < squares.size(); ++k) {
      const double value = Widened(values[i + k]);
      squares[k] += value * value;
    }
  }
  const size_t rest = count % squares.size();
  for (size_t k = 0; k < rest; ++k) {
    const double value = Widened(values[count - rest + k]);
    squares[k] += value * value;
  }
}

template <typename T, bool kDivide>
void SumBlocks(std::span<const void* const> in, std::span<void* const> out, size_t count,
               float divisor, SquareSums* squares) {
  constexpr size_t kBlock = 2048;  // of it the squares are taken while it is in the nearest cache
  const FloatsV divisors = AllOf(divisor);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    size_t i = begin;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) SumFour<T, kDivide>(in, out, i, divisors);
    for (; i < end; ++i) SumOne<T, kDivide>(in, out, i, divisor);
    if (squares != nullptr)
      AddSquares(At<T>(static_cast<const void*>(out[0]), begin), end - begin, *squares);
  }
}

template <typename T>
void SumAs(std::span<const void* const> in, std::span<void* const> out, size_t count, float divisor,
           SquareSums* squares) {
  if (divisor == 1) return SumBlocks<T, false>(in, out, count, divisor, squares);
  SumBlocks<T, true>(in, out, count, divisor, squares);
}

void SumTo(DType dtype, std::span<const void* const> in, std::span<void* const> out, size_t count,
           float divisor, SquareSums* squares) {
  switch (dtype) {
    case DType::kF32:
      return SumAs<float>(in, out, count, divisor, squares);
    case DType::kF16:
      return SumAs<Half>(in, out, count, divisor, squares);
    default:
      return SumAs<BFloat>(in, out, count, divisor, squares);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace::collectives
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::collectives {
namespace {

HWY_EXPORT(SumTo);

// Takes the levels above MILLRACE_SIMD's limit away. Of Highway's numbers for x86-64 a better
// target has a lower bit.
bool LimitLevels() {
  if (SimdLimit() == SimdLevel::kAvx512) return false;
  hwy::DisableTargets(SimdLimit() == SimdLevel::kAvx2 ? HWY_AVX2 - 1 : 2 * HWY_AVX2 - 1);
  return true;
}
[[maybe_unused]] const bool kLevelsAreLimited = LimitLevels();

}  // namespace

void SumAndStore(DType dtype, std::span<const void* const> in, std::span<void* const> out,
                 size_t count, float divisor, SquareSums* squares) {
  HWY_DYNAMIC_DISPATCH(SumTo)(dtype, in, out, count, divisor, squares);
}

std::vector<int64_t> SumKernelLevels() { return hwy::SupportedAndGeneratedTargets(); }
void UseSumKernelLevel(int64_t level) { hwy::SetSupportedTargetsForTest(level); }

}  // namespace millrace::collectives
#endif  // HWY_ONCE
