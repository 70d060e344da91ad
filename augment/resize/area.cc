#include <algorithm>
#include <vector>

#include "augment/resize/resize.h"
#include "augment/rows/resample.h"

// Measured in units of 1 / out of an input pixel, input pixel j is [j * out, (j + 1) * out) and
// output pixel i is [i * in, (i + 1) * in), so all weights are integers and those of an output
// pixel add up to `in`. Rows are added up first: that loop runs over whole contiguous rows.

namespace millrace::augment {
namespace {

// The input pixels under each output pixel, and their weights.
struct AreaWeights {
  std::vector<WeighedRange> ranges;
  std::vector<uint32_t> weights;  // `stride` per output pixel
  int64_t stride = 0;
};

AreaWeights MakeAreaWeights(int64_t in, int64_t out) {
  AreaWeights made;
  made.stride = in / out + 2;
  made.weights.resize(static_cast<size_t>(out * made.stride));
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * in;
    const int64_t end = begin + in;
    const int64_t first = begin / out;
    int64_t j = first;
    for (; j * out < end; ++j) {
      made.weights[static_cast<size_t>(i * made.stride + j - first)] =
          static_cast<uint32_t>(std::min(end, (j + 1) * out) - std::max(begin, j * out));
    }
    made.ranges.push_back({first, j - first});
  }
  return made;
}

}  // namespace

template <typename T>
void ResizeArea(const T* in, int64_t in_height, int64_t in_width, int64_t channels, T* out,
                int64_t out_height, int64_t out_width) {
  const int64_t in_row = in_width * channels;
  const auto area = static_cast<double>(in_height) * static_cast<double>(in_width);
  const AreaWeights across = MakeAreaWeights(in_width, out_width);
  const std::vector<double> weights(across.weights.begin(), across.weights.end());
  const PixelWeights<double> columns = {across.ranges.data(), weights.data(), across.stride,
                                        out_width};
  const AreaWeights down = MakeAreaWeights(in_height, out_height);
  std::vector<double> sums(static_cast<size_t>(in_row + 1));
  const uint32_t* row_weights = down.weights.data();
  for (const auto& [first, rows] : down.ranges) {
    SumRows(in + first * in_row, in_row, row_weights, rows, in_row, sums.data());
    MeanPixels(sums.data(), channels, columns, area, out);
    row_weights += down.stride;
    out += out_width * channels;
  }
}

template void ResizeArea(const uint8_t*, int64_t, int64_t, int64_t, uint8_t*, int64_t, int64_t);
template void ResizeArea(const float*, int64_t, int64_t, int64_t, float*, int64_t, int64_t);

}  // namespace millrace::augment
