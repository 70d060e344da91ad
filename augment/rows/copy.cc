// Compiled once for each set of instructions, as row_kernels.cc is.
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
HWY_INLINE void SplitRowOf(const T* HWY_RESTRICT in, int64_t pixels, int64_t plane,
                           T* HWY_RESTRICT out) {
  constexpr Most<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
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
HWY_INLINE void JoinRowOf(const T* HWY_RESTRICT in, int64_t pixels, int64_t plane,
                          T* HWY_RESTRICT out) {
  constexpr Most<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
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
HWY_INLINE void PadRowOf(const T* HWY_RESTRICT in, int64_t pixels, T value, T* HWY_RESTRICT out) {
  constexpr Most<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto fourth = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= pixels; i += lanes) {
    hn::Vec<decltype(d)> a, b, c;
    hn::LoadInterleaved3(d, in + 3 * i, a, b, c);
    hn::StoreInterleaved4(a, b, c, fourth, d, out + 4 * i);
  }
  for (; i < pixels; ++i) {
    for (int64_t channel = 0; channel < 3; ++channel) out[4 * i + channel] = in[3 * i + channel];
    out[4 * i + 3] = value;
  }
}

void SplitFloats(const float* in, int64_t pixels, int64_t plane, float* out) {
  SplitRowOf(in, pixels, plane, out);
}
void SplitWords(const uint32_t* in, int64_t pixels, int64_t plane, uint32_t* out) {
  SplitRowOf(in, pixels, plane, out);
}
void SplitShorts(const uint16_t* in, int64_t pixels, int64_t plane, uint16_t* out) {
  SplitRowOf(in, pixels, plane, out);
}
void SplitBytes(const uint8_t* in, int64_t pixels, int64_t plane, uint8_t* out) {
  SplitRowOf(in, pixels, plane, out);
}
void JoinWords(const uint32_t* in, int64_t pixels, int64_t plane, uint32_t* out) {
  JoinRowOf(in, pixels, plane, out);
}
void JoinShorts(const uint16_t* in, int64_t pixels, int64_t plane, uint16_t* out) {
  JoinRowOf(in, pixels, plane, out);
}
void JoinBytes(const uint8_t* in, int64_t pixels, int64_t plane, uint8_t* out) {
  JoinRowOf(in, pixels, plane, out);
}
void PadWords(const uint32_t* in, int64_t pixels, uint32_t value, uint32_t* out) {
  PadRowOf(in, pixels, value, out);
}
void PadShorts(const uint16_t* in, int64_t pixels, uint16_t value, uint16_t* out) {
  PadRowOf(in, pixels, value, out);
}
void PadBytes(const uint8_t* in, int64_t pixels, uint8_t value, uint8_t* out) {
  PadRowOf(in, pixels, value, out);
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
HWY_EXPORT(SplitFloats);
HWY_EXPORT(SplitWords);
HWY_EXPORT(SplitShorts);
HWY_EXPORT(SplitBytes);
HWY_EXPORT(JoinWords);
HWY_EXPORT(JoinShorts);
HWY_EXPORT(JoinBytes);
HWY_EXPORT(PadWords);
HWY_EXPORT(PadShorts);
HWY_EXPORT(PadBytes);
HWY_EXPORT(Stream);

void MirrorRow(const std::byte* in, int64_t width, size_t pixel, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(Mirror)
  (reinterpret_cast<const uint8_t*>(in), static_cast<size_t>(width) * pixel, pixel,
   reinterpret_cast<uint8_t*>(out));
}
void SplitRow3(const float* in, int64_t pixels, int64_t plane, float* out) {
  HWY_DYNAMIC_DISPATCH(SplitFloats)(in, pixels, plane, out);
}
void SplitRow3(const uint32_t* in, int64_t pixels, int64_t plane, uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(SplitWords)(in, pixels, plane, out);
}
void SplitRow3(const uint16_t* in, int64_t pixels, int64_t plane, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(SplitShorts)(in, pixels, plane, out);
}
void SplitRow3(const uint8_t* in, int64_t pixels, int64_t plane, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(SplitBytes)(in, pixels, plane, out);
}
void JoinRow3(const uint32_t* in, int64_t pixels, int64_t plane, uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(JoinWords)(in, pixels, plane, out);
}
void JoinRow3(const uint16_t* in, int64_t pixels, int64_t plane, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(JoinShorts)(in, pixels, plane, out);
}
void JoinRow3(const uint8_t* in, int64_t pixels, int64_t plane, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(JoinBytes)(in, pixels, plane, out);
}
void PadRow3(const uint32_t* in, int64_t pixels, uint32_t value, uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(PadWords)(in, pixels, value, out);
}
void PadRow3(const uint16_t* in, int64_t pixels, uint16_t value, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(PadShorts)(in, pixels, value, out);
}
void PadRow3(const uint8_t* in, int64_t pixels, uint8_t value, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(PadBytes)(in, pixels, value, out);
}
void AppendChannels(const std::byte* in, int64_t pixels, size_t pixel, size_t element,
                    std::span<const std::byte> rest, std::byte* out) {
  const auto append_to_three = [&]<typename T>(T value) {
    std::memcpy(&value, rest.data(), sizeof value);
    PadRow3(reinterpret_cast<const T*>(in), pixels, value, reinterpret_cast<T*>(out));
  };
  if (pixel == 3 * element && rest.size() == element) {
    if (element == 1) return append_to_three(uint8_t{});
    if (element == 2) return append_to_three(uint16_t{});
    if (element == 4) return append_to_three(uint32_t{});
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
