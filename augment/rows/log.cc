// Compiled once for each set of instructions, as kernels.cc is.
//
// The method and the polynomial are those of FDLIBM (e_log.c, s_log1p.c): u = 2^k * m with m in
// [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f), and ln(m) = f - f^2 / 2 + s * (f^2 / 2 +
// R(s^2)). Measured beside builds, a value of LogRow: 0.7 ns with AVX-512, 1.3 with AVX2, 4.3 with
// what every x86-64 has; libm's log 2.4, by fused operations.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/log.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <limits>

#include "augment/rows/kernels.h"
#include "augment/rows/log.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, kLogStep>;
using DoublesV = hn::Vec<Doubles>;
using Bits = hn::RebindToUnsigned<Doubles>;
using BitsV = hn::Vec<Bits>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Doubles()));
static_assert(kLogStep % kLanes == 0);

HWY_INLINE DoublesV All(double value) { return hn::Set(Doubles(), value); }

// factor * x + term, the product rounded first.
HWY_INLINE DoublesV MulThenAdd(DoublesV factor, DoublesV x, double term) {
  return hn::Add(hn::Mul(factor, x), All(term));
}

// ln(u) + rest, where `rest` is small beside 1. REQUIRES: each u >= 2^-1022, or NaN.
HWY_INLINE DoublesV LogPlus(DoublesV u, DoublesV rest) {
  constexpr uint64_t kOne = 0x3FF0000000000000;
  constexpr uint64_t kRootOfHalf = 0x3FE6A09E00000000;
  constexpr Doubles d;
  constexpr Bits b;
  // From m = sqrt(1/2) on the exponent is one more.
  const BitsV bits = hn::Add(hn::BitCast(b, u), hn::Set(b, kOne - kRootOfHalf));
  const BitsV mantissa = hn::And(bits, hn::Set(b, 0x000FFFFFFFFFFFFF));
  const DoublesV m = hn::BitCast(d, hn::Add(mantissa, hn::Set(b, kRootOfHalf)));
  // k + 1023 as the low bits of 2^52.
  const BitsV exponent = hn::Or(hn::ShiftRight<52>(bits), hn::Set(b, 0x4330000000000000));
  const DoublesV k = hn::Sub(hn::BitCast(d, exponent), All(0x1p52 + 1023));

  const DoublesV f = hn::Sub(m, All(1));
  const DoublesV half_square = hn::Mul(hn::Mul(All(0.5), f), f);
  const DoublesV s = hn::Div(f, hn::Add(All(2), f));
  const DoublesV z = hn::Mul(s, s);
  const DoublesV w = hn::Mul(z, z);
  DoublesV even = MulThenAdd(w, All(0x1.39a09d078c69fp-3), 0x1.c71c51d8e78afp-3);
  even = hn::Mul(w, MulThenAdd(w, even, 0x1.999999997fa04p-2));
  DoublesV odd = MulThenAdd(w, All(0x1.2f112df3e5244p-3), 0x1.7466496cb03dep-3);
  odd = MulThenAdd(w, odd, 0x1.2492494229359p-2);
  odd = hn::Mul(z, MulThenAdd(w, odd, 0x1.5555555555593p-1));
  // ln(2) is two numbers, of which the product of the first with any k is exact.
  const DoublesV low = hn::Add(hn::Mul(k, All(0x1.a39ef35793c76p-33)), rest);
  const DoublesV high = hn::Mul(k, All(0x1.62e42feep-1));
  const DoublesV tail = hn::Mul(s, hn::Add(half_square, hn::Add(even, odd)));
  const DoublesV log = hn::Add(hn::Add(hn::Sub(hn::Add(tail, low), half_square), f), high);
  const auto finite = hn::Lt(u, All(std::numeric_limits<double>::infinity()));
  return hn::IfThenElse(finite, log, u);  // infinite, or NaN
}

void Log(double* values, int64_t count) {
  constexpr Doubles d;
  for (int64_t i = 0; i < count; i += kLanes) {
    const DoublesV x = hn::LoadU(d, values + i);
    // Numbers below the normal ones are made larger, by 2^54.
    const auto tiny = hn::Lt(x, All(std::numeric_limits<double>::min()));
    const DoublesV u = hn::IfThenElse(tiny, hn::Mul(x, All(0x1p54)), x);
    const DoublesV added = hn::IfThenElseZero(tiny, All(54 * 0x1.62e42fefa39efp-1));
    hn::StoreU(hn::Sub(LogPlus(u, hn::Zero(d)), added), d, values + i);
  }
}

void LogOnePlus(double* values, int64_t count) {
  constexpr Doubles d;
  for (int64_t i = 0; i < count; i += kLanes) {
    const DoublesV x = hn::LoadU(d, values + i);
    const DoublesV u = hn::Add(All(1), x);
    const DoublesV added = hn::Sub(u, All(1));
    // Of the sum, exactly.
    const DoublesV rest = hn::Add(hn::Sub(All(1), hn::Sub(u, added)), hn::Sub(x, added));
    hn::StoreU(LogPlus(u, hn::Div(rest, u)), d, values + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(Log);
HWY_EXPORT(LogOnePlus);

void LogRow(double* values, int64_t count) { HWY_DYNAMIC_DISPATCH(Log)(values, count); }
void LogOnePlusRow(double* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(LogOnePlus)(values, count);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
