#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "augment/resize/resize.h"
#include "augment/rows/resample.h"

// bicubic and nearest without antialias. Four rows are blended into one line of floats, whose
// columns are then blended: the order of bilinear (resize.cc).

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
void BlendRows(const ImageView<T>& in, const CubicTap& tap, float* out) {
  const auto row = [&](size_t k) { return in.data + tap.at[k] * in.stride; };
  const auto [a, b, c, d] = tap.weight;
  const FourRows<T> rows = {{row(0), row(1), row(2), row(3)}, {a, b, c, d}};
  WeighFourRows(rows, in.width * in.channels, out);
}

// Blends the columns of rows of floats, behind which kWeighedSlack more may be read.
class CubicColumns {
 public:
  // Of so many rows.
  CubicColumns(int64_t rows, const std::vector<CubicTap>& taps, int64_t channels, RunArena& arena)
      : channels_(channels) {
    for (const CubicTap& tap : taps) {
      for (size_t k = 0; k < 4; ++k) {
        at_.push_back(static_cast<int32_t>(tap.at[k] * channels));
        weights_.push_back(tap.weight[k]);
      }
    }
    columns_ = {at_.data(), weights_.data(), static_cast<int64_t>(taps.size())};
    if (!HasColumnWindows()) return;
    const auto tap = [&](int64_t x, int64_t k) -> WeighedTap<float> {
      const CubicTap& from = taps[static_cast<size_t>(x)];
      return {from.at[static_cast<size_t>(k)], from.weight[static_cast<size_t>(k)]};
    };
    windows_ = MakeWeightWindows<float>(rows, columns_.count, channels, 4, tap, arena);
  }

  // Writes up to kWeighedSlack floats behind the row.
  void Blend(const float* row, float* out) const {
    if (windows_.count > 0) return WeighWindows(row, windows_, out);
    WeighFourPixels(row, channels_, columns_, out);
  }

 private:
  const int64_t channels_;
  std::vector<int32_t> at_;
  std::vector<float> weights_;
  FourPixels columns_;
  WeightWindows<float> windows_;  // if there are any: of columns_
};

void Store(const float* in, int64_t count, float* out) { std::copy_n(in, count, out); }
void Store(const float* in, int64_t count, uint8_t* out) { CutToBytes(in, count, out); }

float* AllocateLine(int64_t count, RunArena& arena) {
  auto* const line = AllocateArray<float>(arena, count + kWeighedSlack);
  std::fill_n(line + count, kWeighedSlack, 0.0f);
  return line;
}

}  // namespace

template <typename T>
void ResizeBicubic(const ImageView<T>& in, const ImageTarget<T>& out, RunArena& arena) {
  const CubicColumns columns(out.height, MakeTaps(in.width, out.width), in.channels, arena);
  float* const blended = AllocateLine(in.width * in.channels, arena);
  const int64_t count = out.width * in.channels;
  float* const line = AllocateLine(count, arena);
  T* to = out.data;
  for (const CubicTap& row : MakeTaps(in.height, out.height)) {
    BlendRows(in, row, blended);
    columns.Blend(blended, line);
    Store(line, count, to);
    to += count;
  }
}

template void ResizeBicubic(const ImageView<uint8_t>&, const ImageTarget<uint8_t>&, RunArena&);
template void ResizeBicubic(const ImageView<float>&, const ImageTarget<float>&, RunArena&);

void ResizeNearest(const std::byte* in, int64_t in_height, int64_t in_width, size_t stride,
                   size_t pixel, const ImageTarget<std::byte>& out) {
  const auto source = [](int64_t i, int64_t size, int64_t to) {
    return static_cast<size_t>((2 * i + 1) * size / (2 * to));
  };
  std::vector<size_t> columns(static_cast<size_t>(out.width));
  for (int64_t x = 0; x < out.width; ++x) {
    columns[static_cast<size_t>(x)] = source(x, in_width, out.width) * pixel;
  }
  std::byte* to = out.data;
  for (int64_t y = 0; y < out.height; ++y) {
    const std::byte* row = in + source(y, in_height, out.height) * stride;
    for (const size_t column : columns) {
      std::memcpy(to, row + column, pixel);
      to += pixel;
    }
  }
}

}  // namespace millrace::augment
