#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "augment/resize/resize.h"
#include "augment/rows/resample.h"

// Pillow's resampling (src/libImaging/Resample.c), to the bit. The kernel is stretched to the width
// of an output pixel, so that every input pixel has its share. Bytes are added up in integers, by
// weights of 22 bits, and each pass rounds to bytes: sums do not depend on the order, so any
// register may hold any of them.

namespace millrace::augment {
namespace {

template <typename T>
using Weight = std::conditional_t<std::is_same_v<T, uint8_t>, int32_t, double>;

template <typename T>
struct Taps {
  std::vector<WeighedRange> ranges;  // of the input, one per output pixel
  std::vector<Weight<T>> weights;    // `stride` per output pixel
  int64_t stride = 0;
  int64_t most = 0;  // of a pixel

  PixelWeights<Weight<T>> view() const {
    return {ranges.data(), weights.data(), stride, static_cast<int64_t>(ranges.size())};
  }
};

double Triangle(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

double Cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

void Store(double weight, double* out) { *out = weight; }
void Store(double weight, int32_t* out) {
  const double scaled = weight * (1 << kWeightBits);
  *out = static_cast<int32_t>(weight < 0 ? scaled - 0.5 : scaled + 0.5);
}

template <typename T>
Taps<T> MakeTaps(int64_t in, int64_t out, bool cubic) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = std::max(scale, 1.0);
  const double support = (cubic ? 2.0 : 1.0) * stretch;
  Taps<T> taps;
  taps.stride = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  taps.stride = (taps.stride + kWeightStep - 1) / kWeightStep * kWeightStep;
  taps.weights.resize(static_cast<size_t>(out * taps.stride + kWeightStep));
  std::vector<double> weights(static_cast<size_t>(taps.stride));
  for (int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto last = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in);
    double sum = 0;
    for (int64_t j = 0; j < last - first; ++j) {
      const double x = (static_cast<double>(j + first) - center + 0.5) * (1.0 / stretch);
      const double weight = cubic ? Cubic(x) : Triangle(x);
      weights[static_cast<size_t>(j)] = weight;
      sum += weight;
    }
    Weight<T>* to = &taps.weights[static_cast<size_t>(i * taps.stride)];
    for (int64_t j = 0; j < last - first; ++j) {
      const double weight = weights[static_cast<size_t>(j)];
      Store(sum != 0 ? weight / sum : weight, to + j);
    }
    taps.ranges.push_back({first, last - first});
    taps.most = std::max(taps.most, last - first);
  }
  return taps;
}

// The row, with kWeighedSlack bytes behind it that may be read: where it lies, or copied to `copy`.
const uint8_t* RowWithSlack(const ImageView<uint8_t>& in, int64_t y, uint8_t* copy) {
  const uint8_t* const row = in.data + y * in.stride;
  if ((in.height - 1 - y) * in.stride >= kWeighedSlack) return row;
  std::memcpy(copy, row, static_cast<size_t>(in.width * in.channels));
  return copy;
}

void WeighColumns(const ImageView<uint8_t>& in, const Taps<uint8_t>& taps, RunArena& arena,
                  uint8_t* out) {
  const PixelWeights<int32_t> columns = taps.view();
  WeightWindows<int32_t> windows;
  if (HasColumnWindows()) {
    const auto tap = [&](int64_t x, int64_t j) -> WeighedTap<int32_t> {
      const auto [first, count] = columns.ranges[x];
      if (j >= count) return {first + count - 1, 0};
      return {first + j, columns.weights[x * columns.stride + j]};
    };
    windows =
        MakeWeightWindows<int32_t>(in.height, columns.count, in.channels, taps.most, tap, arena);
  }
  const int64_t row_bytes = in.width * in.channels;
  auto* const copy = AllocateArray<uint8_t>(arena, row_bytes + kWeighedSlack);
  std::fill_n(copy + row_bytes, kWeighedSlack, uint8_t{0});
  for (int64_t y = 0; y < in.height; ++y, out += columns.count * in.channels) {
    const uint8_t* const row = RowWithSlack(in, y, copy);
    if (windows.count > 0) {
      WeighWindows(row, windows, out);
    } else {
      WeighPixels(row, in.channels, columns, out);
    }
  }
}

void WeighColumns(const ImageView<float>& in, const Taps<float>& taps, RunArena&, float* out) {
  for (int64_t y = 0; y < in.height; ++y, out += taps.view().count * in.channels) {
    WeighPixels(in.data + y * in.stride, in.channels, taps.view(), out);
  }
}

// Returns the image as wide as the output, dense.
template <typename T>
ImageView<T> ResizeColumns(const ImageView<T>& in, int64_t width, bool cubic, RunArena& arena) {
  const int64_t stride = width * in.channels;
  T* const out = AllocateArray<T>(arena, in.height * stride + kWeighedSlack);
  WeighColumns(in, MakeTaps<T>(in.width, width, cubic), arena, out);
  return {out, in.height, width, stride, in.channels};
}

template <typename T>
void ResizeRows(const ImageView<T>& in, int64_t height, bool cubic, T* out) {
  const Taps<T> taps = MakeTaps<T>(in.height, height, cubic);
  const int64_t count = in.width * in.channels;
  const Weight<T>* weights = taps.weights.data();
  for (const auto& [first, rows] : taps.ranges) {
    WeighRows(in.data + first * in.stride, in.stride, weights, rows, count, out);
    weights += taps.stride;
    out += count;
  }
}

}  // namespace

template <typename T>
void ResizeAntialias(const ImageView<T>& in, bool cubic, const ImageTarget<T>& out,
                     RunArena& arena) {
  const ImageView<T> columns =
      in.width == out.width ? in : ResizeColumns(in, out.width, cubic, arena);
  if (in.height != out.height) return ResizeRows(columns, out.height, cubic, out.data);
  const auto row = static_cast<size_t>(out.width * in.channels);
  for (int64_t y = 0; y < out.height; ++y) {
    std::memcpy(out.data + static_cast<size_t>(y) * row, columns.data + y * columns.stride,
                row * sizeof(T));
  }
}

template void ResizeAntialias(const ImageView<uint8_t>&, bool, const ImageTarget<uint8_t>&,
                              RunArena&);
template void ResizeAntialias(const ImageView<float>&, bool, const ImageTarget<float>&, RunArena&);

}  // namespace millrace::augment
