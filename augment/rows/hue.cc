// Compiled once for each set of instructions, as kernels.cc is.
//
// torchvision's _rgb_to_hsv and _hsv2rgb without their branches: all results are worked out, and
// those that a pixel does not need are dropped. Every quotient is a division, so that the bits are
// those of the plain loop.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/hue.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>
#include <array>

#include "augment/rows/color.h"
#include "augment/rows/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr float kSixth = static_cast<float>(1.0 / 6);
// The factor of values of 0 to 1 before they are cut off.
constexpr float kByteScale = 255.999f;

struct Hsv {
  float h, s, v;
};

// Of 0 to 1, hue in turns.
HWY_INLINE Hsv ToHsv(float r, float g, float b) {
  const float high = std::max({r, g, b});
  const float low = std::min({r, g, b});
  const float range = high - low;
  if (range == 0) return {0, 0, high};
  const float rc = (high - r) / range;
  const float gc = (high - g) / range;
  const float bc = (high - b) / range;
  const float sector = high == r ? bc - gc : high == g ? rc + 2.0f - bc : gc + 4.0f - rc;
  const float turns = sector * kSixth + 1.0f;  // in [5/6, 11/6]
  return {turns >= 1 ? turns - 1.0f : turns, range / high, high};
}

HWY_INLINE std::array<float, 3> ToRgb(const Hsv& in) {
  const auto unit = [](float value) { return std::clamp(value, 0.0f, 1.0f); };
  const float h6 = in.h * 6;
  const auto sector = static_cast<int>(h6);
  const float sxf = in.s * (h6 - static_cast<float>(sector));
  const float rest = 1.0f - in.s;
  const float q = unit((1.0f - sxf) * in.v);
  const float t = unit((sxf + rest) * in.v);
  const float p = unit(rest * in.v);
  switch (sector % 6) {
    case 0:
      return {in.v, t, p};
    case 1:
      return {q, in.v, p};
    case 2:
      return {p, in.v, t};
    case 3:
      return {p, q, in.v};
    case 4:
      return {t, p, in.v};
    default:
      return {in.v, p, q};
  }
}

HWY_INLINE void ShiftPixel(const uint8_t* in, float factor, uint8_t* out) {
  const auto unit = [&](int c) { return static_cast<float>(in[c]) / 255.0f; };
  Hsv hsv = ToHsv(unit(0), unit(1), unit(2));
  hsv.h += factor;
  if (hsv.h < 0) {
    hsv.h += 1.0f;
  } else if (hsv.h >= 1) {
    hsv.h -= 1.0f;
  }
  const std::array<float, 3> rgb = ToRgb(hsv);
  for (size_t c = 0; c < 3; ++c) out[c] = static_cast<uint8_t>(rgb[c] * kByteScale);
}

#if HWY_TARGET == HWY_SCALAR
void ShiftHues(const uint8_t* in, int64_t pixels, float factor, uint8_t* out) {
  for (int64_t i = 0; i < 3 * pixels; i += 3) ShiftPixel(in + i, factor, out + i);
}
#else
using Floats = hn::CappedTag<float, 16>;
using FloatsV = hn::Vec<Floats>;
using Bytes = hn::Rebind<uint8_t, Floats>;
using BytesV = hn::Vec<Bytes>;
using Words = hn::Rebind<int32_t, Floats>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Floats()));

struct Colors {
  FloatsV r, g, b;
};

HWY_INLINE FloatsV All(float value) { return hn::Set(Floats(), value); }
HWY_INLINE FloatsV ToUnits(BytesV bytes) {
  return hn::Div(hn::ConvertTo(Floats(), hn::PromoteTo(Words(), bytes)), All(255));
}
HWY_INLINE BytesV FromUnits(FloatsV value) {
  return hn::DemoteTo(Bytes(), hn::ConvertTo(Words(), hn::Mul(value, All(kByteScale))));
}
HWY_INLINE FloatsV Unit(FloatsV value) {
  return hn::Min(hn::Max(value, hn::Zero(Floats())), All(1));
}

// The hues and what they were made of.
struct HsvV {
  FloatsV h, s, v;
};

HWY_INLINE HsvV ToHsvs(const Colors& in) {
  const FloatsV high = hn::Max(hn::Max(in.r, in.g), in.b);
  const FloatsV low = hn::Min(hn::Min(in.r, in.g), in.b);
  const FloatsV range = hn::Sub(high, low);
  const auto coloured = hn::Ne(range, hn::Zero(Floats()));
  const FloatsV divisor = hn::IfThenElse(coloured, range, All(1));
  const FloatsV rc = hn::Div(hn::Sub(high, in.r), divisor);
  const FloatsV gc = hn::Div(hn::Sub(high, in.g), divisor);
  const FloatsV bc = hn::Div(hn::Sub(high, in.b), divisor);
  FloatsV sector = hn::Sub(hn::Add(gc, All(4)), rc);
  sector = hn::IfThenElse(hn::Eq(high, in.g), hn::Sub(hn::Add(rc, All(2)), bc), sector);
  sector = hn::IfThenElse(hn::Eq(high, in.r), hn::Sub(bc, gc), sector);
  FloatsV turns = hn::Add(hn::Mul(sector, All(kSixth)), All(1));
  turns = hn::IfThenElse(hn::Ge(turns, All(1)), hn::Sub(turns, All(1)), turns);
  const FloatsV saturation = hn::Div(range, hn::IfThenElse(coloured, high, All(1)));
  return {hn::IfThenElseZero(coloured, turns), saturation, high};
}

HWY_INLINE Colors ToColors(const HsvV& in) {
  const FloatsV h6 = hn::Mul(in.h, All(6));
  const FloatsV sector = hn::ConvertTo(Floats(), hn::ConvertTo(Words(), h6));  // 0 to 6
  const FloatsV sxf = hn::Mul(in.s, hn::Sub(h6, sector));
  const FloatsV rest = hn::Sub(All(1), in.s);
  const FloatsV q = Unit(hn::Mul(hn::Sub(All(1), sxf), in.v));
  const FloatsV t = Unit(hn::Mul(hn::Add(sxf, rest), in.v));
  const FloatsV p = Unit(hn::Mul(rest, in.v));
  const auto is = [&](float number) HWY_ATTR { return hn::Eq(sector, All(number)); };
  const auto first = hn::Or(is(0), is(6)), second = is(1), third = is(2), fourth = is(3),
             fifth = is(4), sixth = is(5);
  Colors out;
  out.r = hn::IfThenElse(hn::Or(third, fourth), p, in.v);
  out.r = hn::IfThenElse(second, q, hn::IfThenElse(fifth, t, out.r));
  out.g = hn::IfThenElse(hn::Or(fifth, sixth), p, in.v);
  out.g = hn::IfThenElse(first, t, hn::IfThenElse(fourth, q, out.g));
  out.b = hn::IfThenElse(hn::Or(first, second), p, in.v);
  out.b = hn::IfThenElse(third, t, hn::IfThenElse(sixth, q, out.b));
  return out;
}

void ShiftHues(const uint8_t* in, int64_t pixels, float factor, uint8_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= pixels; i += kLanes) {
    BytesV r, g, b;
    hn::LoadInterleaved3(Bytes(), in + 3 * i, r, g, b);
    HsvV hsv = ToHsvs({ToUnits(r), ToUnits(g), ToUnits(b)});
    const FloatsV moved = hn::Add(hsv.h, All(factor));
    const auto below = hn::Lt(moved, hn::Zero(Floats()));
    hsv.h = hn::IfThenElse(hn::Ge(moved, All(1)), hn::Sub(moved, All(1)), moved);
    hsv.h = hn::IfThenElse(below, hn::Add(moved, All(1)), hsv.h);
    const Colors rgb = ToColors(hsv);
    hn::StoreInterleaved3(FromUnits(rgb.r), FromUnits(rgb.g), FromUnits(rgb.b), Bytes(),
                          out + 3 * i);
  }
  for (; i < pixels; ++i) ShiftPixel(in + 3 * i, factor, out + 3 * i);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(ShiftHues);

void ShiftHueRow3(const uint8_t* in, int64_t pixels, float factor, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ShiftHues)(in, pixels, factor, out);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
