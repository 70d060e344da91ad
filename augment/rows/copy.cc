// Compiled once for each set of instructions, as kernels.cc is.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/rows/copy.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on
#include <algorithm>
#include <cstring>

#include "augment/rows/copy.h"
#include "augment/rows/kernels.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Most = hn::CappedTag<T, 64 / sizeof(T)>;

// Of pixels of 1 to 16 bytes: from where in the sixteen bytes before it each byte of a row comes.
struct MirrorOrders {
  constexpr MirrorOrders() {
    for (size_t pixel = 1; pixel <= 16; ++pixel) {
      for (size_t i = 0; i < 16 / pixel * pixel; ++i) {
        of[pixel][i] = static_cast<uint8_t>(16 - pixel - i / pixel * pixel + i % pixel);
      }
    }
  }
  uint8_t of[17][16] = {};
};

// Pixels from `begin` on, by plain moves. kPixel 0: of `pixel` bytes.
template <size_t kPixel>
void MirrorFrom(size_t begin, const uint8_t* in, size_t row, size_t pixel, uint8_t* out) {
  const size_t step = kPixel > 0 ? kPixel : pixel;
  for (size_t at = begin; at < row; at += step) std::memcpy(out + at, in + row - step - at, step);
}

void Mirror(const uint8_t* HWY_RESTRICT in, size_t row, size_t pixel, uint8_t* HWY_RESTRICT out) {
  size_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  // Sixteen bytes at a time, of which whole pixels count; the next ones are written over the rest.
  if (pixel <= 16 && row >= 16) {
    constexpr hn::FixedTag<uint8_t, 16> d;
    static constexpr MirrorOrders kOrders;
    const size_t bytes = 16 / pixel * pixel;
    const auto mirrored = hn::LoadU(d, kOrders.of[pixel]);
    for (; done + 16 <= row; done += bytes) {
      hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, in + row - 16 - done), mirrored), d, out + done);
    }
  }
#endif
  if (pixel == 3) return MirrorFrom<3>(done, in, row, pixel, out);
  if (pixel == 12) return MirrorFrom<12>(done, in, row, pixel, out);
  MirrorFrom<0>(done, in, row, pixel, out);
}

template <typename T>
HWY_INLINE void SplitAs(const void* row, int64_t pixels, int64_t plane, void* planes) {
  constexpr Most<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* HWY_RESTRICT const in = static_cast<const T*>(row);
  auto* HWY_RESTRICT const out = static_cast<T*>(planes);
  int64_t i = 0;
  for (; i + lanes <= pixels; i += lanes) {
    hn::Vec<decltype(d)> a, b, c;
    hn::LoadInterleaved3(d, in + 3 * i, a, b, c);
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + plane + i);
    hn::StoreU(c, d, out + 2 * plane + i);
  }
  for (; i < pixels; ++i) {
    for (int64_t channel = 0; channel < 3; ++channel) {
      out[channel * plane + i] = in[3 * i + channel];
    }
  }
}

template <typename T>
HWY_INLINE void JoinAs(const void* planes, int64_t pixels, int64_t plane, void* row) {
  constexpr Most<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* HWY_RESTRICT const in = static_cast<const T*>(planes);
  auto* HWY_RESTRICT const out = static_cast<T*>(row);
  int64_t i = 0;
  for (; i + lanes <= pixels; i += lanes) {
    hn::StoreInterleaved3(hn::LoadU(d, in + i), hn::LoadU(d, in + plane + i),
                          hn::LoadU(d, in + 2 * plane + i), d, out + 3 * i);
  }
  for (; i < pixels; ++i) {
    for (int64_t channel = 0; channel < 3; ++channel) {
      out[3 * i + channel] = in[channel * plane + i];
    }
  }
}

template <typename T>
HWY_INLINE void PadAs(const void* row, int64_t pixels, const void* fourth, void* padded) {
  constexpr Most<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* HWY_RESTRICT const in = static_cast<const T*>(row);
  auto* HWY_RESTRICT const out = static_cast<T*>(padded);
  T value;
  std::memcpy(&value, fourth, sizeof value);
  const auto values = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= pixels; i += lanes) {
    hn::Vec<decltype(d)> a, b, c;
    hn::LoadInterleaved3(d, in + 3 * i, a, b, c);
    hn::StoreInterleaved4(a, b, c, values, d, out + 4 * i);
  }
  for (; i < pixels; ++i) {
    for (int64_t channel = 0; channel < 3; ++channel) out[4 * i + channel] = in[3 * i + channel];
    out[4 * i + 3] = value;
  }
}

// Elements are moved as integers of their size: 1, 2 or 4 bytes.
void Split(const void* in, int64_t pixels, int64_t plane, size_t element, void* out) {
  if (element == 1) return SplitAs<uint8_t>(in, pixels, plane, out);
  if (element == 2) return SplitAs<uint16_t>(in, pixels, plane, out);
  SplitAs<uint32_t>(in, pixels, plane, out);
}
void Join(const void* in, int64_t pixels, int64_t plane, size_t element, void* out) {
  if (element == 1) return JoinAs<uint8_t>(in, pixels, plane, out);
  if (element == 2) return JoinAs<uint16_t>(in, pixels, plane, out);
  JoinAs<uint32_t>(in, pixels, plane, out);
}
void Pad(const void* in, int64_t pixels, const void* fourth, size_t element, void* out) {
  if (element == 1) return PadAs<uint8_t>(in, pixels, fourth, out);
  if (element == 2) return PadAs<uint16_t>(in, pixels, fourth, out);
  PadAs<uint32_t>(in, pixels, fourth, out);
}

void Stream(const uint8_t* HWY_RESTRICT in, size_t bytes, uint8_t* HWY_RESTRICT out) {
  constexpr Most<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  const size_t unaligned = (reinterpret_cast<uintptr_t>(out) | bytes) % lanes;
  if (lanes == 1 || unaligned != 0) return static_cast<void>(std::memcpy(out, in, bytes));
  for (size_t i = 0; i < bytes; i += lanes) hn::Stream(hn::LoadU(d, in + i), d, out + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::augment {

HWY_EXPORT(Mirror);
HWY_EXPORT(Split);
HWY_EXPORT(Join);
HWY_EXPORT(Pad);
HWY_EXPORT(Stream);

void MirrorRow(const std::byte* in, int64_t width, size_t pixel, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(Mirror)
  (reinterpret_cast<const uint8_t*>(in), static_cast<size_t>(width) * pixel, pixel,
   reinterpret_cast<uint8_t*>(out));
}
void SplitRow3(const void* in, int64_t pixels, int64_t plane, size_t element, void* out) {
  HWY_DYNAMIC_DISPATCH(Split)(in, pixels, plane, element, out);
}
void JoinRow3(const void* in, int64_t pixels, int64_t plane, size_t element, void* out) {
  HWY_DYNAMIC_DISPATCH(Join)(in, pixels, plane, element, out);
}
void AppendChannels(const std::byte* in, int64_t pixels, size_t pixel, size_t element,
                    std::span<const std::byte> rest, std::byte* out) {
  if (pixel == 3 * element && rest.size() == element && element <= kMostMoved) {
    HWY_DYNAMIC_DISPATCH(Pad)(in, pixels, rest.data(), element, out);
    return;
  }
  for (; pixels > 0; --pixels, in += pixel) {
    std::memcpy(out, in, pixel);
    std::ranges::copy(rest, out + pixel);
    out += pixel + rest.size();
  }
}
void StreamRow(const void* in, size_t bytes, void* out) {
  HWY_DYNAMIC_DISPATCH(Stream)
  (static_cast<const uint8_t*>(in), bytes, static_cast<uint8_t*>(out));
}
void EndStreaming() { hwy::FlushStream(); }

}  // namespace millrace::augment
#endif  // HWY_ONCE
