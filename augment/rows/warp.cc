// Compiled once for each set of instructions, as kernels.cc is.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/warp.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>
#include <cstring>
#include <limits>

#include "augment/rows/kernels.h"
#include "augment/rows/warp.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::CappedTag<int32_t, 16>;
using WordsV = hn::Vec<Words>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Words()));

// Places first, as vectors, then copies. Lanes behind the last pixel may overflow; no one looks.
void CopyPlaces(const uint8_t* in, int64_t stride, const PixelWalk& walk, int64_t count,
                uint8_t* out) {
  constexpr int64_t kMost = 64;
  static_assert(kMost % kLanes == 0);
  constexpr Words w;
  const WordsV row = hn::Set(w, static_cast<int32_t>(stride));
  const auto ascending = [&](int32_t first, int32_t step) HWY_ATTR {
    return hn::Add(hn::Set(w, first), hn::Mul(hn::Iota(w, 0), hn::Set(w, step)));
  };
  const auto lanes_of = [&](int32_t step)
                            HWY_ATTR { return hn::Mul(hn::Set(w, step), hn::Set(w, kLanes)); };
  WordsV x = ascending(walk.x, walk.step_x);
  WordsV y = ascending(walk.y, walk.step_y);
  const WordsV next_x = lanes_of(walk.step_x);
  const WordsV next_y = lanes_of(walk.step_y);
  alignas(64) int32_t places[kMost];
  for (int64_t left = count; left > 0; left -= kMost) {
    const int64_t some = std::min(left, kMost);
    for (int64_t i = 0; i < some; i += kLanes) {
      const WordsV column = hn::ShiftRight<16>(x);
      const WordsV place =
          hn::Add(hn::Mul(hn::ShiftRight<16>(y), row), hn::Add(column, hn::ShiftLeft<1>(column)));
      hn::Store(place, w, places + i);
      x = hn::Add(x, next_x);
      y = hn::Add(y, next_y);
    }
    for (int64_t i = 0; i < some; ++i, out += 3) std::memcpy(out, in + places[i], 4);
  }
}

// Where the pixels around a place lie, in bytes from the image's first, and how far it is between
// them.
constexpr int64_t kPlaces = 64;
struct Corners {
  alignas(64) int32_t left_top[kPlaces];
  alignas(64) int32_t right[kPlaces];   // bytes from the left ones; 0 at the edge
  alignas(64) int32_t bottom[kPlaces];  // from the upper ones
  alignas(64) double across[kPlaces];
  alignas(64) double down[kPlaces];
};

// Between which pixels place `at` lies along an axis of `size` pixels.
struct Span {
  int64_t low;
  int64_t high;
  double weight;
};
HWY_INLINE Span SpanOf(double at, int64_t size) {
  const double shifted = at - 0.5;  // not below -0.5
  const int64_t index = shifted < 0 ? -1 : static_cast<int64_t>(shifted);
  return {std::max<int64_t>(index, 0), std::min(index + 1, size - 1),
          shifted - static_cast<double>(index)};
}

HWY_INLINE void BlendPlace(const ColorImage& in, const PixelLine& line, int64_t i, uint8_t* out) {
  const double x = static_cast<double>(i) + 0.5;
  const Span column = SpanOf(line.step_x * x + line.along_x + line.shift_x, in.width);
  const Span span = SpanOf(line.step_y * x + line.along_y + line.shift_y, in.height);
  const auto value = [&](int64_t row, int64_t at, int64_t c) {
    return static_cast<double>(in.data[(row * in.width + at) * in.channels + c]);
  };
  for (int64_t c = 0; c < in.channels; ++c) {
    const auto along = [&](int64_t row) {
      const double left = value(row, column.low, c);
      return left + (value(row, column.high, c) - left) * column.weight;
    };
    const double top = along(span.low);
    out[c] = static_cast<uint8_t>(top + (along(span.high) - top) * span.weight);
  }
}

void BlendEach(const ColorImage& in, const PixelLine& line, int64_t begin, int64_t end,
               uint8_t* row) {
  for (int64_t i = begin; i < end; ++i) BlendPlace(in, line, i, row + i * in.channels);
}

#if HWY_TARGET > HWY_AVX2  // whose vectors are too short
void BlendLine(const ColorImage& in, const PixelLine& line, int64_t begin, int64_t end,
               uint8_t* row) {
  BlendEach(in, line, begin, end, row);
}
#else
using Doubles = hn::CappedTag<double, 8>;
using DoublesV = hn::Vec<Doubles>;
using Indices = hn::Rebind<int32_t, Doubles>;
using IndicesV = hn::Vec<Indices>;
constexpr int64_t kDoubles = static_cast<int64_t>(hn::MaxLanes(Doubles()));
static_assert(kPlaces % kDoubles == 0);

struct SpanV {
  IndicesV low;
  IndicesV next;  // 1, or 0 at the edge
  DoublesV weight;
};

HWY_INLINE SpanV SpansOf(DoublesV at, int64_t size) {
  constexpr Doubles d;
  constexpr Indices n;
  const DoublesV shifted = hn::Sub(at, hn::Set(d, 0.5));
  const DoublesV low = hn::Floor(shifted);
  const IndicesV index = hn::DemoteTo(n, low);
  const IndicesV first = hn::Max(index, hn::Zero(n));
  const IndicesV last = hn::Set(n, static_cast<int32_t>(size - 1));
  const IndicesV second = hn::Min(hn::Add(index, hn::Set(n, 1)), last);
  return {first, hn::Sub(second, first), hn::Sub(shifted, low)};
}

// Of kPlaces pixels from `begin` on; those behind the row's last are anywhere.
HWY_INLINE void FindCorners(const ColorImage& in, const PixelLine& line, int64_t begin,
                            int64_t count, Corners& to) {
  constexpr Doubles d;
  constexpr Indices n;
  const auto place = [&](DoublesV x, double step, double along, double shift) HWY_ATTR {
    const DoublesV moved = hn::Add(hn::Mul(hn::Set(d, step), x), hn::Set(d, along));
    return hn::Add(moved, hn::Set(d, shift));
  };
  const IndicesV row_bytes = hn::Set(n, static_cast<int32_t>(in.width * 3));
  for (int64_t i = 0; i < count; i += kDoubles) {
    const DoublesV x = hn::Iota(d, static_cast<double>(begin + i) + 0.5);
    const SpanV columns = SpansOf(place(x, line.step_x, line.along_x, line.shift_x), in.width);
    const SpanV rows = SpansOf(place(x, line.step_y, line.along_y, line.shift_y), in.height);
    const IndicesV three = hn::Set(n, 3);
    const IndicesV first = hn::Add(hn::Mul(rows.low, row_bytes), hn::Mul(columns.low, three));
    hn::Store(first, n, to.left_top + i);
    hn::Store(hn::Mul(columns.next, three), n, to.right + i);
    hn::Store(hn::Mul(rows.next, row_bytes), n, to.bottom + i);
    hn::Store(columns.weight, d, to.across + i);
    hn::Store(rows.weight, d, to.down + i);
  }
}

using Pixel = hn::FixedTag<double, 4>;
using PixelV = hn::Vec<Pixel>;
using PixelWords = hn::FixedTag<int32_t, 4>;
using PixelBytes = hn::FixedTag<uint8_t, 4>;

HWY_INLINE PixelV LoadPixel(const uint8_t* in) {
  return hn::PromoteTo(Pixel(), hn::PromoteTo(PixelWords(), hn::LoadU(PixelBytes(), in)));
}
HWY_INLINE PixelV Between(PixelV a, PixelV b, double weight) {
  return hn::Add(a, hn::Mul(hn::Sub(b, a), hn::Set(Pixel(), weight)));
}

// A pixel is loaded with the byte behind it, which the image's last pixel does not have, and stored
// with the first of the next.
void BlendLine(const ColorImage& in, const PixelLine& line, int64_t begin, int64_t end,
               uint8_t* row) {
  constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max();
  if (in.channels != 3 || in.size() > kMostBytes) return BlendEach(in, line, begin, end, row);
  const int64_t last_load = in.size() - 4;
  Corners at;
  while (begin < end) {
    const int64_t count = std::min(end - begin, kPlaces);
    FindCorners(in, line, begin, count, at);
    for (int64_t i = 0; i < count; ++i, ++begin) {
      uint8_t* const out = row + 3 * begin;
      if (at.left_top[i] + at.right[i] + at.bottom[i] > last_load || begin + 1 == end) {
        BlendPlace(in, line, begin, out);
        continue;
      }
      const uint8_t* const from = in.data + at.left_top[i];
      const uint8_t* const below = from + at.bottom[i];
      const PixelV top = Between(LoadPixel(from), LoadPixel(from + at.right[i]), at.across[i]);
      const PixelV bottom = Between(LoadPixel(below), LoadPixel(below + at.right[i]), at.across[i]);
      const auto cut = hn::DemoteTo(PixelWords(), Between(top, bottom, at.down[i]));
      hn::StoreU(hn::DemoteTo(PixelBytes(), cut), PixelBytes(), out);
    }
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(CopyPlaces);
HWY_EXPORT(BlendLine);

void CopyPlaces3(const uint8_t* in, int64_t stride, const PixelWalk& walk, int64_t count,
                 uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(CopyPlaces)(in, stride, walk, count, out);
}
void BlendPlaces(const ColorImage& in, const PixelLine& line, int64_t begin, int64_t end,
                 uint8_t* row) {
  HWY_DYNAMIC_DISPATCH(BlendLine)(in, line, begin, end, row);
}

}  // namespace millrace::augment
#endif  // HWY_ONCE
