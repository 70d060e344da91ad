// With M the largest magnitude and n elements, adding and subtracting C = 1.5 * 2^e, where 2^e is
// over n * M^2, rounds a square to a multiple of u = 2^(e - 52). The n multiples add up to less
// than 2^53 u, so every sum of some of them is a double. What is left of each square is at most
// u / 2, and goes the same way with 2^e over n * u. The rest that is dropped is below
// n^3 M^2 2^-102.
//
// Compiled once for each set of instructions (foreach_target.h includes this file again). The sums
// are exact, so the number of lanes does not count.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/optimizer/square_sum.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// clang-format on
#include <algorithm>
#include <cmath>

#include "trainer/optimizer/square_rounding.h"
#include "trainer/optimizer/square_sum.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Doubles = hn::CappedTag<double, 8>;
using WideFloats = hn::Rebind<float, Doubles>;  // as many as Doubles

// The elements that are read twice, the second time from the first cache.
constexpr size_t kBlock = 2048;

// A comparison with NaN is false, so NaN is left out.
HWY_INLINE hn::Vec<Floats> Larger(hn::Vec<Floats> best, hn::Vec<Floats> value) {
  const auto magnitude = hn::Abs(value);
  return hn::IfThenElse(hn::Gt(magnitude, best), magnitude, best);
}

float LargestOf(std::span<const float> values) {
  const Floats floats;
  constexpr size_t kLanes = hn::MaxLanes(floats);
  auto a = hn::Zero(floats);
  auto b = a;
  size_t k = 0;
  for (; k + 2 * kLanes <= values.size(); k += 2 * kLanes) {
    a = Larger(a, hn::LoadU(floats, values.data() + k));
    b = Larger(b, hn::LoadU(floats, values.data() + k + kLanes));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(floats, hn::Max(a, b)));
  for (; k < values.size(); ++k) largest = std::max(largest, std::abs(values[k]));
  return largest;
}

// Sums of some lanes.
struct Squares {
  hn::Vec<Doubles> high;
  hn::Vec<Doubles> low;
};

// A square of a float is a double, so it is not rounded by itself.
HWY_INLINE void AddTo(Squares& sum, hn::Vec<Doubles> value, hn::Vec<Doubles> coarse,
                      hn::Vec<Doubles> fine) {
  const auto rounded = hn::Sub(hn::MulAdd(value, value, coarse), coarse);
  const auto rest = hn::MulSub(value, value, rounded);
  sum.high = hn::Add(sum.high, rounded);
  sum.low = hn::Add(sum.low, hn::Sub(hn::Add(rest, fine), fine));
}

// Two of each vector hide the latency of an addition. Meanwhile the next block is on its way.
void SquaresOf(std::span<const float> values, const SquareRounding& rounding, double* sum) {
  const Doubles doubles;
  const WideFloats floats;
  constexpr size_t kLanes = hn::MaxLanes(doubles);
  const auto coarse_v = hn::Set(doubles, rounding.coarse);
  const auto fine_v = hn::Set(doubles, rounding.fine);
  Squares a = {hn::Zero(doubles), hn::Zero(doubles)};
  Squares b = a;
  const auto load = [&](size_t k) HWY_ATTR {
    return hn::PromoteTo(doubles, hn::LoadU(floats, values.data() + k));
  };
  size_t k = 0;
  for (; k + 2 * kLanes <= values.size(); k += 2 * kLanes) {
    hwy::Prefetch(values.data() + k + kBlock);
    AddTo(a, load(k), coarse_v, fine_v);
    AddTo(b, load(k + kLanes), coarse_v, fine_v);
  }
  sum[0] += hn::GetLane(hn::SumOfLanes(doubles, hn::Add(a.high, b.high)));
  sum[1] += hn::GetLane(hn::SumOfLanes(doubles, hn::Add(a.low, b.low)));
  for (; k < values.size(); ++k) rounding.Add(values[k], sum);
}

double SumSquares(std::span<const float> values, const SquareRounding& rounding, double* sum) {
  float largest = 0;
  for (size_t k = 0; k < values.size(); k += kBlock) {
    const auto block = values.subspan(k, std::min(kBlock, values.size() - k));
    largest = std::max(largest, LargestOf(block));
    SquaresOf(block, rounding, sum);
  }
  return largest;
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace::trainer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer {
namespace {

HWY_EXPORT(SumSquares);

}  // namespace

double LargestMagnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void AddSquares(std::span<const float> values, double largest, size_t count, double* sum) {
  (void)LargestAndSquares(values, largest, count, sum);
}

double LargestAndSquares(std::span<const float> values, double guess, size_t count, double* sum) {
  return HWY_DYNAMIC_DISPATCH(SumSquares)(values, SquareRounding::Of(guess, count), sum);
}

bool SameRounding(double a, double b, size_t count) {
  return SquareRounding::Of(a, count).coarse == SquareRounding::Of(b, count).coarse;
}

double NormOf(const double* sum) { return std::sqrt(sum[0] + sum[1]); }

}  // namespace millrace::trainer
#endif  // HWY_ONCE
