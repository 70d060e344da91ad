#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "augment/resize_internal.h"

// bicubic and nearest without antialias. Four rows are blended into one line of floats, whose columns
// are then blended: the order of bilinear (resize.cc).

namespace millrace::augment {
namespace {

struct CubicTap {
  std::array<int64_t, 4> at;  // pixels
  std::array<float, 4> weight;
};

// Keys' kernel: PyTorch's formulas, whose a is -0.75.
std::array<float, 4> CubicWeights(float t) {
  constexpr float kA = -0.75f;
  const auto near = [](float x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](float x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

std::vector<CubicTap> MakeTaps(int64_t in, int64_t out) {
  std::vector<CubicTap> taps(static_cast<size_t>(out));
  const float ratio = static_cast<float>(in) / static_cast<float>(out);
  for (int64_t i = 0; i < out; ++i) {
    const float position = (static_cast<float>(i) + 0.5f) * ratio - 0.5f;
    const float floor = std::floor(position);
    CubicTap& tap = taps[static_cast<size_t>(i)];
    for (int64_t k = 0; k < 4; ++k) {
      tap.at[static_cast<size_t>(k)] =
          std::clamp<int64_t>(static_cast<int64_t>(floor) - 1 + k, 0, in - 1);
    }
    tap.weight = CubicWeights(position - floor);
  }
  return taps;
}

template <typename T>
void BlendRows(const ImageView<T>& in, const CubicTap& tap, float* __restrict out) {
  const T* __restrict a = in.data + tap.at[0] * in.stride;
  const T* __restrict b = in.data + tap.at[1] * in.stride;
  const T* __restrict c = in.data + tap.at[2] * in.stride;
  const T* __restrict d = in.data + tap.at[3] * in.stride;
  const auto [wa, wb, wc, wd] = tap.weight;
  const int64_t count = in.width * in.channels;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = wa * static_cast<float>(a[i]) + wb * static_cast<float>(b[i]) +
             wc * static_cast<float>(c[i]) + wd * static_cast<float>(d[i]);
  }
}

void Store(float value, float* out) { *out = value; }
void Store(float value, uint8_t* out) {
  *out = static_cast<uint8_t>(std::nearbyint(std::clamp(value, 0.0f, 255.0f)));
}

}  // namespace

template <typename T>
void ResizeBicubic(const ImageView<T>& in, const ImageTarget<T>& out, RunArena& arena) {
  const std::vector<CubicTap> rows = MakeTaps(in.height, out.height);
  const std::vector<CubicTap> columns = MakeTaps(in.width, out.width);
  const auto count = static_cast<size_t>(in.width * in.channels);
  auto* line = reinterpret_cast<float*>(arena.Allocate(count * sizeof(float)));
  T* to = out.data;
  for (const CubicTap& row : rows) {
    BlendRows(in, row, line);
    for (const auto& [at, weight] : columns) {
      for (int64_t c = 0; c < in.channels; ++c) {
        const auto pixel = [&](size_t k) { return line[at[k] * in.channels + c]; };
        Store(weight[0] * pixel(0) + weight[1] * pixel(1) + weight[2] * pixel(2) +
                  weight[3] * pixel(3),
              to++);
      }
    }
  }
}

template void ResizeBicubic(const ImageView<uint8_t>&, const ImageTarget<uint8_t>&, RunArena&);
template void ResizeBicubic(const ImageView<float>&, const ImageTarget<float>&, RunArena&);

void ResizeNearest(const std::byte* in, int64_t in_height, int64_t in_width, size_t pixel,
                   std::byte* out, int64_t out_height, int64_t out_width) {
  const auto source = [](int64_t i, int64_t size, int64_t to) {
    return static_cast<size_t>((2 * i + 1) * size / (2 * to));
  };
  std::vector<size_t> columns(static_cast<size_t>(out_width));
  for (int64_t x = 0; x < out_width; ++x) {
    columns[static_cast<size_t>(x)] = source(x, in_width, out_width) * pixel;
  }
  for (int64_t y = 0; y < out_height; ++y) {
    const std::byte* row =
        in + source(y, in_height, out_height) * static_cast<size_t>(in_width) * pixel;
    for (const size_t column : columns) {
      std::memcpy(out, row + column, pixel);
      out += pixel;
    }
  }
}

}  // namespace millrace::augment
