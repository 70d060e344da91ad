#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "augment/resize_internal.h"

// Pillow's resampling (src/libImaging/Resample.c), to the bit. The kernel is stretched to the width of
// an output pixel, so that every input pixel has its share. Bytes are added up in integers, by weights
// of 22 bits, and each pass rounds to bytes: sums do not depend on the order, so any compiler may
// vectorise them.

namespace millrace::augment {
namespace {

constexpr int kWeightBits = 22;

template <typename T>
using Weight = std::conditional_t<std::is_same_v<T, uint8_t>, int32_t, double>;

template <typename T>
struct Taps {
  struct Range {
    int64_t first;
    int64_t count;
  };
  std::vector<Range> ranges;       // of the input, one per output pixel
  std::vector<Weight<T>> weights;  // `stride` per output pixel
  int64_t stride = 0;
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
  taps.weights.resize(static_cast<size_t>(out * taps.stride));
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
  }
  return taps;
}

uint8_t Rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}
float Rounded(double sum) { return static_cast<float>(sum); }

template <typename T>
constexpr Weight<T> kHalf = 0;
template <>
constexpr int32_t kHalf<uint8_t> = 1 << (kWeightBits - 1);

// One row, of kChannels; 0: of `channels`.
template <int kChannels, typename T>
void BlendColumns(const T* row, const Taps<T>& taps, int64_t channels, T* out) {
  const int64_t step = kChannels > 0 ? kChannels : channels;
  const Weight<T>* weights = taps.weights.data();
  for (const auto& [first, count] : taps.ranges) {
    const T* from = row + first * step;
    if constexpr (kChannels > 0) {
      Weight<T> sums[kChannels];
      std::fill_n(sums, kChannels, kHalf<T>);
      for (int64_t j = 0; j < count; ++j) {
        for (int c = 0; c < kChannels; ++c) sums[c] += weights[j] * from[j * kChannels + c];
      }
      for (int c = 0; c < kChannels; ++c) out[c] = Rounded(sums[c]);
    } else {
      for (int64_t c = 0; c < step; ++c) {
        Weight<T> sum = kHalf<T>;
        for (int64_t j = 0; j < count; ++j) sum += weights[j] * from[j * step + c];
        out[c] = Rounded(sum);
      }
    }
    weights += taps.stride;
    out += step;
  }
}

// Returns the image as wide as the output, dense.
template <typename T>
ImageView<T> ResizeColumns(const ImageView<T>& in, int64_t width, bool cubic, RunArena& arena) {
  const Taps<T> taps = MakeTaps<T>(in.width, width, cubic);
  const int64_t stride = width * in.channels;
  T* const out =
      reinterpret_cast<T*>(arena.Allocate(static_cast<size_t>(in.height * stride) * sizeof(T)));
  const auto blend = in.channels == 3   ? &BlendColumns<3, T>
                     : in.channels == 1 ? &BlendColumns<1, T>
                                        : &BlendColumns<0, T>;
  for (int64_t y = 0; y < in.height; ++y) {
    blend(in.data + y * in.stride, taps, in.channels, out + y * stride);
  }
  return {out, in.height, width, stride, in.channels};
}

template <typename T>
void AddRow(const T* __restrict row, Weight<T> weight, size_t count, Weight<T>* __restrict sums) {
  for (size_t i = 0; i < count; ++i) sums[i] += weight * static_cast<Weight<T>>(row[i]);
}

template <typename T>
void ResizeRows(const ImageView<T>& in, int64_t height, bool cubic, T* out) {
  const Taps<T> taps = MakeTaps<T>(in.height, height, cubic);
  const auto count = static_cast<size_t>(in.width * in.channels);
  std::vector<Weight<T>> sums(count);
  const Weight<T>* weights = taps.weights.data();
  for (const auto& [first, rows] : taps.ranges) {
    std::ranges::fill(sums, kHalf<T>);
    for (int64_t j = 0; j < rows; ++j) {
      AddRow(in.data + (first + j) * in.stride, weights[j], count, sums.data());
    }
    for (size_t i = 0; i < count; ++i) out[i] = Rounded(sums[i]);
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
