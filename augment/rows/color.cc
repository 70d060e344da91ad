// Compiled once for each set of instructions, as kernels.cc is.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/color.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>
#include <cstring>

#include "augment/rows/color.h"
#include "augment/rows/floats-inl.h"
#include "augment/rows/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

using Bytes = hn::Rebind<uint8_t, Floats>;
using BytesV = hn::Vec<Bytes>;
using Shorts = hn::Rebind<uint16_t, Floats>;
using ShortsV = hn::Vec<Shorts>;
using Words = hn::Rebind<int32_t, Floats>;
using WordsV = hn::Vec<Words>;

uint8_t Cut(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); }

HWY_INLINE FloatsV ToFloats(BytesV bytes) {
  return hn::ConvertTo(Floats(), hn::PromoteTo(Words(), bytes));
}
HWY_INLINE BytesV ToBytes(FloatsV value) {
  constexpr Floats d;
  const FloatsV cut = hn::Min(hn::Max(value, hn::Zero(d)), hn::Set(d, 255.0f));
  return hn::DemoteTo(Bytes(), hn::ConvertTo(Words(), cut));
}

float Grey(const uint8_t* pixel) {
  return static_cast<float>(static_cast<int>(0.2989f * static_cast<float>(pixel[0]) +
                                             0.587f * static_cast<float>(pixel[1]) +
                                             0.114f * static_cast<float>(pixel[2])));
}
HWY_INLINE WordsV Greys(FloatsV r, FloatsV g, FloatsV b) {
  constexpr Floats d;
  const FloatsV sum = hn::Add(hn::Mul(hn::Set(d, 0.2989f), r), hn::Mul(hn::Set(d, 0.587f), g));
  return hn::ConvertTo(Words(), hn::Add(sum, hn::Mul(hn::Set(d, 0.114f), b)));
}

int64_t SumGreys(const uint8_t* in, int64_t pixels) {
  constexpr int64_t kMostAdded = 1 << 16;  // to a 32-bit sum
  int64_t total = 0, i = 0;
  while (i + kLanes <= pixels) {
    WordsV sums = hn::Zero(Words());
    for (int64_t n = 0; n < kMostAdded && i + kLanes <= pixels; ++n, i += kLanes) {
      BytesV r, g, b;
      hn::LoadInterleaved3(Bytes(), in + 3 * i, r, g, b);
      sums = hn::Add(sums, Greys(ToFloats(r), ToFloats(g), ToFloats(b)));
    }
    int32_t lanes[kLanes];
    hn::StoreU(sums, Words(), lanes);
    for (const int32_t lane : lanes) total += lane;
  }
  for (; i < pixels; ++i) total += static_cast<int64_t>(Grey(in + 3 * i));
  return total;
}

void Saturate(const uint8_t* in, int64_t pixels, float factor, float rest, uint8_t* out) {
  constexpr Floats d;
  int64_t i = 0;
  for (; i + kLanes <= pixels; i += kLanes) {
    BytesV r, g, b;
    hn::LoadInterleaved3(Bytes(), in + 3 * i, r, g, b);
    const FloatsV red = ToFloats(r), green = ToFloats(g), blue = ToFloats(b);
    const FloatsV grey = hn::Mul(hn::ConvertTo(d, Greys(red, green, blue)), hn::Set(d, rest));
    const auto mix = [&](FloatsV value) HWY_ATTR {
      return ToBytes(hn::Add(hn::Mul(value, hn::Set(d, factor)), grey));
    };
    hn::StoreInterleaved3(mix(red), mix(green), mix(blue), Bytes(), out + 3 * i);
  }
  for (; i < pixels; ++i) {
    const float grey = Grey(in + 3 * i) * rest;
    for (int64_t c = 3 * i; c < 3 * i + 3; ++c) {
      out[c] = Cut(static_cast<float>(in[c]) * factor + grey);
    }
  }
}

void GreyPixels(const uint8_t* in, int64_t pixels, uint8_t* out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + kLanes <= pixels; i += kLanes) {
    BytesV r, g, b;
    hn::LoadInterleaved3(Bytes(), in + 3 * i, r, g, b);
    const BytesV grey = hn::DemoteTo(Bytes(), Greys(ToFloats(r), ToFloats(g), ToFloats(b)));
    hn::StoreInterleaved3(grey, grey, grey, Bytes(), out + 3 * i);
  }
#endif
  for (; i < pixels; ++i) std::fill_n(out + 3 * i, 3, static_cast<uint8_t>(Grey(in + 3 * i)));
}

#if HWY_TARGET != HWY_SCALAR
using Halfway = hn::CappedTag<uint16_t, 32>;
using HalfwayV = hn::Vec<Halfway>;

// value + (blurred - value) * rest, of one half of the vectors.
HWY_INLINE hn::Vec<Bytes> Sharpened(ShortsV middle, ShortsV mean, FloatsV rest) {
  constexpr Floats d;
  const FloatsV value = hn::ConvertTo(d, hn::PromoteTo(Words(), middle));
  const FloatsV blurred = hn::ConvertTo(d, hn::PromoteTo(Words(), mean));
  return ToBytes(hn::Add(value, hn::Mul(hn::Sub(blurred, value), rest)));
}
#endif

void Sharpen(const uint8_t* above, const uint8_t* in, const uint8_t* below, int64_t count,
             int64_t step, float rest, uint8_t* out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr Halfway s;
  const auto load = [](const uint8_t* from) HWY_ATTR {
    return hn::PromoteTo(Halfway(), hn::LoadU(hn::Rebind<uint8_t, Halfway>(), from));
  };
  const auto three = [&](const uint8_t* from) HWY_ATTR {
    return hn::Add(hn::Add(load(from - step), load(from)), load(from + step));
  };
  const FloatsV all_rest = hn::Set(Floats(), rest);
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const HalfwayV middle = load(in + i);
    const HalfwayV eight = hn::Add(hn::Add(three(above + i), three(in + i)), three(below + i));
    const HalfwayV sum = hn::Add(eight, hn::ShiftLeft<2>(middle));
    // (2 * sum + 13) / 26, exactly: 40330 is 2^20 / 26 rounded up, and what that adds to a number
    // of at most 6643 is below 1/26.
    const HalfwayV twice = hn::Add(hn::ShiftLeft<1>(sum), hn::Set(s, 13));
    const HalfwayV mean = hn::ShiftRight<4>(hn::MulHigh(twice, hn::Set(s, 40330)));
    const auto low = Sharpened(hn::LowerHalf(middle), hn::LowerHalf(mean), all_rest);
    const auto high =
        Sharpened(hn::UpperHalf(Shorts(), middle), hn::UpperHalf(Shorts(), mean), all_rest);
    hn::StoreU(low, Bytes(), out + i);
    hn::StoreU(high, Bytes(), out + i + kLanes);
  }
#endif
  for (; i < count; ++i) {
    int sum = 4 * in[i];
    for (const uint8_t* line : {above + i, in + i, below + i}) {
      sum += line[-step] + line[0] + line[step];
    }
    const auto value = static_cast<float>(in[i]);
    const auto blurred = static_cast<float>((2 * sum + 13) / 26);
    out[i] = Cut(value + (blurred - value) * rest);
  }
}

void Linear(const uint8_t* in, int64_t count, float factor, float rest, uint8_t* out) {
  constexpr Floats d;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const FloatsV value = ToFloats(hn::LoadU(Bytes(), in + i));
    const FloatsV scaled = hn::Add(hn::Mul(value, hn::Set(d, factor)), hn::Set(d, rest));
    hn::StoreU(ToBytes(scaled), Bytes(), out + i);
  }
  for (; i < count; ++i) out[i] = Cut(static_cast<float>(in[i]) * factor + rest);
}

// Of whole pixels, which `low` and `high` hold those of pixels before.
HWY_INLINE void WidenRange(const uint8_t* in, int64_t pixels, uint8_t* low, uint8_t* high) {
  for (int64_t i = 0; i < 3 * pixels; ++i) {
    low[i % 3] = std::min(low[i % 3], in[i]);
    high[i % 3] = std::max(high[i % 3], in[i]);
  }
}

#if HWY_TARGET == HWY_SCALAR
void LookUp(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = table[in[i]];
}
void LookUp3(const uint8_t* in, int64_t pixels, const uint8_t* tables, uint8_t* out) {
  for (int64_t i = 0; i < 3 * pixels; i += 3) {
    for (int64_t c = 0; c < 3; ++c) out[i + c] = tables[256 * c + in[i + c]];
  }
}
void Range(const uint8_t* in, int64_t pixels, uint8_t* low, uint8_t* high) {
  std::fill_n(low, 3, uint8_t{255});
  std::fill_n(high, 3, uint8_t{0});
  WidenRange(in, pixels, low, high);
}
#else
using Wide = hn::CappedTag<uint8_t, 64>;
using WideV = hn::Vec<Wide>;
constexpr int64_t kWideLanes = static_cast<int64_t>(hn::MaxLanes(Wide()));

// Of each sixteenth of the table those that lie in it; all others are looked up as 0.
HWY_INLINE WideV LookUpEach(const uint8_t* HWY_RESTRICT table, WideV value) {
  constexpr Wide d;
  WideV found = hn::Zero(d);
  for (int part = 0; part < 16; ++part) {
    WideV at = hn::SaturatedAdd(value, hn::Set(d, 0x70));  // bit 7 is set above 15
#if !HWY_ARCH_X86 || HWY_TARGET == HWY_EMU128
    at = hn::And(at, hn::Set(d, 0x8F));                    // x86 looks at no other bits
#endif
    found = hn::Or(found, hn::TableLookupBytesOr0(hn::LoadDup128(d, table + 16 * part), at));
    value = hn::Sub(value, hn::Set(d, 16));
  }
  return found;
}

void LookUp(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out) {
  constexpr Wide d;
  int64_t i = 0;
  for (; i + kWideLanes <= count; i += kWideLanes) {
    hn::StoreU(LookUpEach(table, hn::LoadU(d, in + i)), d, out + i);
  }
  for (; i < count; ++i) out[i] = table[in[i]];
}

void LookUp3(const uint8_t* in, int64_t pixels, const uint8_t* tables, uint8_t* out) {
  constexpr Wide d;
  int64_t i = 0;
  for (; i + kWideLanes <= pixels; i += kWideLanes) {
    WideV r, g, b;
    hn::LoadInterleaved3(d, in + 3 * i, r, g, b);
    r = LookUpEach(tables, r);
    g = LookUpEach(tables + 256, g);
    b = LookUpEach(tables + 512, b);
    hn::StoreInterleaved3(r, g, b, d, out + 3 * i);
  }
  for (i *= 3; i < 3 * pixels; i += 3) {
    for (int64_t c = 0; c < 3; ++c) out[i + c] = tables[256 * c + in[i + c]];
  }
}

// Bytes that are three vectors apart are of the same channel.
void Range(const uint8_t* in, int64_t pixels, uint8_t* low, uint8_t* high) {
  constexpr Wide d;
  WideV least[3], most[3];
  for (int part = 0; part < 3; ++part) {
    least[part] = hn::Set(d, 255);
    most[part] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + kWideLanes <= pixels; i += kWideLanes) {
    for (int part = 0; part < 3; ++part) {
      const WideV value = hn::LoadU(d, in + 3 * i + part * kWideLanes);
      least[part] = hn::Min(least[part], value);
      most[part] = hn::Max(most[part], value);
    }
  }
  uint8_t each_least[3 * kWideLanes], each_most[3 * kWideLanes];
  for (int part = 0; part < 3; ++part) {
    hn::StoreU(least[part], d, each_least + part * kWideLanes);
    hn::StoreU(most[part], d, each_most + part * kWideLanes);
  }
  std::fill_n(low, 3, uint8_t{255});
  std::fill_n(high, 3, uint8_t{0});
  uint8_t unused[3] = {};
  WidenRange(each_least, kWideLanes, low, unused);
  std::fill_n(unused, 3, uint8_t{255});
  WidenRange(each_most, kWideLanes, unused, high);
  WidenRange(in + 3 * i, pixels - i, low, high);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(SumGreys);
HWY_EXPORT(Saturate);
HWY_EXPORT(Sharpen);
HWY_EXPORT(Linear);
HWY_EXPORT(LookUp);
HWY_EXPORT(LookUp3);
HWY_EXPORT(Range);
HWY_EXPORT(GreyPixels);

int64_t SumGreys3(const uint8_t* in, int64_t pixels) {
  return HWY_DYNAMIC_DISPATCH(SumGreys)(in, pixels);
}
void SaturateRow3(const uint8_t* in, int64_t pixels, float factor, float rest, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(Saturate)(in, pixels, factor, rest, out);
}
void SharpenRow(const uint8_t* above, const uint8_t* in, const uint8_t* below, int64_t count,
                int64_t step, float rest, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(Sharpen)(above, in, below, count, step, rest, out);
}
void LinearRow(const uint8_t* in, int64_t count, float factor, float rest, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(Linear)(in, count, factor, rest, out);
}
void LookUpRow(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(LookUp)(in, count, table, out);
}
void LookUpRow3(const uint8_t* in, int64_t pixels, const uint8_t* tables, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(LookUp3)(in, pixels, tables, out);
}
void RangeRow3(const uint8_t* in, int64_t pixels, uint8_t* low, uint8_t* high) {
  HWY_DYNAMIC_DISPATCH(Range)(in, pixels, low, high);
}
void GreyRow3(const uint8_t* in, int64_t pixels, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(GreyPixels)(in, pixels, out);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
