#include <algorithm>
#include <type_traits>
#include <vector>

#include "augment/resize_internal.h"

// Measured in units of 1 / out of an input pixel, input pixel j is [j * out, (j + 1) * out) and output
// pixel i is [i * in, (i + 1) * in), so all weights are integers and those of an output pixel add up to
// `in`. Rows are added up first: that loop runs over whole contiguous rows.

namespace millrace::augment {
namespace {

// What weighted pixels of a column, and then of an output pixel, add up to. A column's weights add up
// to in_height <= 2^24, so its sum of bytes fits.
template <typename T>
using ColumnSum = std::conditional_t<std::is_same_v<T, uint8_t>, uint32_t, double>;
template <typename T>
using PixelSum = std::conditional_t<std::is_same_v<T, uint8_t>, uint64_t, double>;

// Calls `add(j, weight)` for the input pixels under output pixel i.
template <typename Add>
void ForEachUnder(int64_t i, int64_t in, int64_t out, const Add& add) {
  const int64_t begin = i * in;
  const int64_t end = begin + in;
  for (int64_t j = begin / out; j * out < end; ++j) {
    add(j, static_cast<uint32_t>(std::min(end, (j + 1) * out) - std::max(begin, j * out)));
  }
}

template <typename T>
void AddRow(const T* __restrict row, ColumnSum<T> weight, int64_t count,
            ColumnSum<T>* __restrict sums) {
  for (int64_t x = 0; x < count; ++x) sums[x] += weight * static_cast<ColumnSum<T>>(row[x]);
}

uint8_t Mean(uint64_t total, uint64_t area) {
  return static_cast<uint8_t>((total + area / 2) / area);
}
float Mean(double total, uint64_t area) {
  return static_cast<float>(total / static_cast<double>(area));
}

// One row of the output, from the sums of its columns; kGroup channels of each pixel are added up at
// once: all of them, or one.
template <int kGroup, typename T>
void AddColumns(const ColumnSum<T>* sums, int64_t in_width, int64_t channels, uint64_t area, T* out,
                int64_t out_width) {
  for (int64_t x = 0; x < out_width; ++x) {
    for (int64_t first = 0; first < channels; first += kGroup) {
      PixelSum<T> totals[kGroup] = {};
      ForEachUnder(x, in_width, out_width, [&](int64_t column, uint32_t weight) {
        const ColumnSum<T>* pixel = sums + column * channels + first;
        for (int c = 0; c < kGroup; ++c) totals[c] += static_cast<PixelSum<T>>(weight) * pixel[c];
      });
      for (const PixelSum<T> total : totals) *out++ = Mean(total, area);
    }
  }
}

}  // namespace

template <typename T>
void ResizeArea(const T* in, int64_t in_height, int64_t in_width, int64_t channels, T* out,
                int64_t out_height, int64_t out_width) {
  const int64_t in_row = in_width * channels;
  const auto area = static_cast<uint64_t>(in_height) * static_cast<uint64_t>(in_width);
  const auto add_columns = channels == 3 ? &AddColumns<3, T> : &AddColumns<1, T>;
  std::vector<ColumnSum<T>> sums(static_cast<size_t>(in_row));
  for (int64_t y = 0; y < out_height; ++y) {
    std::ranges::fill(sums, ColumnSum<T>{});
    ForEachUnder(y, in_height, out_height, [&](int64_t row, uint32_t weight) {
      AddRow<T>(in + row * in_row, weight, in_row, sums.data());
    });
    add_columns(sums.data(), in_width, channels, area, out, out_width);
    out += out_width * channels;
  }
}

template void ResizeArea(const uint8_t*, int64_t, int64_t, int64_t, uint8_t*, int64_t, int64_t);
template void ResizeArea(const float*, int64_t, int64_t, int64_t, float*, int64_t, int64_t);

}  // namespace millrace::augment
