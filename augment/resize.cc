#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "augment/resize_internal.h"

// Vertical first: that pass runs over whole contiguous rows, as wide as the registers are, and
// leaves one float row per output row. Only then columns are gathered, once per output pixel
// (horizontal first would gather for up to two input rows per output row). A pixel of three
// channels is gathered as one load of four lanes; the lane too many is overwritten by the next
// pixel, so every row has room for one lane more.

namespace millrace::augment {
namespace {

using Float4 = float __attribute__((vector_size(16)));

struct Tap {
  int32_t lower;
  int32_t upper;
  float weight;
};

template <typename T>
T* AllocateArray(RunArena& arena, int64_t count) {
  return reinterpret_cast<T*>(arena.Allocate(static_cast<size_t>(count) * sizeof(T)));
}

std::span<const Tap> MakeTaps(int64_t in, int64_t out, int64_t scale, RunArena& arena) {
  Tap* taps = AllocateArray<Tap>(arena, out);
  const float ratio = static_cast<float>(in) / static_cast<float>(out);
  for (int64_t i = 0; i < out; ++i) {
    const float position = (static_cast<float>(i) + 0.5f) * ratio - 0.5f;
    const float floor = std::floor(position);
    const auto first = static_cast<int64_t>(floor);
    const int64_t lower = std::clamp<int64_t>(first, 0, in - 1);
    const int64_t upper = std::clamp<int64_t>(first + 1, 0, in - 1);
    taps[i] = {static_cast<int32_t>(lower * scale), static_cast<int32_t>(upper * scale),
               position - floor};
  }
  return {taps, static_cast<size_t>(out)};
}

template <typename T>
void BlendRows(const T* __restrict top, const T* __restrict bottom, float weight, int64_t count,
               float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    const auto a = static_cast<float>(top[i]);
    const auto b = static_cast<float>(bottom[i]);
    out[i] = a + (b - a) * weight;
  }
}

Float4 Load(const float* from) {
  Float4 value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void BlendColumns3(const float* row, std::span<const Tap> taps, float* out) {
  for (const Tap& tap : taps) {
    const Float4 left = Load(row + tap.lower);
    const Float4 right = Load(row + tap.upper);
    const Float4 value = left + (right - left) * tap.weight;
    std::memcpy(out, &value, sizeof value);
    out += 3;
  }
}

void BlendColumns(const float* row, std::span<const Tap> taps, int64_t channels, float* out) {
  for (const Tap& tap : taps) {
    for (int64_t c = 0; c < channels; ++c) {
      const float left = row[tap.lower + c];
      const float right = row[tap.upper + c];
      *out++ = left + (right - left) * tap.weight;
    }
  }
}

void Store(const float* __restrict in, int64_t count, float* __restrict out) {
  std::copy_n(in, count, out);
}

// Adding 1.5 * 2^23 leaves the value, rounded half to even, in the low bits.
void Store(const float* __restrict in, int64_t count, uint8_t* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint8_t>(std::bit_cast<uint32_t>(in[i] + 12582912.0f));
  }
}

}  // namespace

template <typename T>
void ResizeBilinear(const T* in, int64_t in_height, int64_t in_width, int64_t stride,
                    int64_t channels, T* out, int64_t out_height, int64_t out_width,
                    RunArena& arena) {
  const std::span<const Tap> rows = MakeTaps(in_height, out_height, 1, arena);
  const std::span<const Tap> columns = MakeTaps(in_width, out_width, channels, arena);
  const int64_t in_row = in_width * channels;
  const int64_t out_row = out_width * channels;
  float* blended = AllocateArray<float>(arena, in_row + 4);
  std::fill_n(blended + in_row, 4, 0.0f);
  float* line = AllocateArray<float>(arena, out_row + 4);
  for (const Tap& row : rows) {
    BlendRows(in + row.lower * stride, in + row.upper * stride, row.weight, in_row, blended);
    if (channels == 3) {
      BlendColumns3(blended, columns, line);
    } else {
      BlendColumns(blended, columns, channels, line);
    }
    Store(line, out_row, out);
    out += out_row;
  }
}

template void ResizeBilinear(const uint8_t*, int64_t, int64_t, int64_t, int64_t, uint8_t*, int64_t,
                             int64_t, RunArena&);
template void ResizeBilinear(const float*, int64_t, int64_t, int64_t, int64_t, float*, int64_t,
                             int64_t, RunArena&);

}  // namespace millrace::augment
