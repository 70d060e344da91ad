#include <algorithm>
#include <vector>

#include "augment/resize_internal.h"

// Measured in units of 1 / out of an input pixel, input pixel j is [j * out, (j + 1) * out) and output
// pixel i is [i * in, (i + 1) * in), so all weights are integers and those of an output pixel add up to
// `in`. Rows are added up first: that loop runs over whole contiguous rows.

namespace millrace::augment {
namespace {

// Calls `add(j, weight)` for the input pixels under output pixel i.
template <typename Add>
void ForEachUnder(int64_t i, int64_t in, int64_t out, const Add& add) {
  const int64_t begin = i * in;
  const int64_t end = begin + in;
  for (int64_t j = begin / out; j * out < end; ++j) {
    add(j, static_cast<uint32_t>(std::min(end, (j + 1) * out) - std::max(begin, j * out)));
  }
}

void AddRow(const uint8_t* __restrict row, uint32_t weight, int64_t count,
            uint32_t* __restrict sums) {
  for (int64_t x = 0; x < count; ++x) sums[x] += weight * row[x];
}

}  // namespace

void ResizeArea(const uint8_t* in, int64_t in_height, int64_t in_width, int64_t channels,
                uint8_t* out, int64_t out_height, int64_t out_width) {
  const int64_t in_row = in_width * channels;
  const auto area = static_cast<uint64_t>(in_height) * static_cast<uint64_t>(in_width);
  std::vector<uint32_t> sums(static_cast<size_t>(in_row));
  for (int64_t y = 0; y < out_height; ++y) {
    std::ranges::fill(sums, 0);
    ForEachUnder(y, in_height, out_height, [&](int64_t row, uint32_t weight) {
      AddRow(in + row * in_row, weight, in_row, sums.data());
    });
    for (int64_t x = 0; x < out_width; ++x) {
      uint64_t totals[3] = {};
      ForEachUnder(x, in_width, out_width, [&](int64_t column, uint32_t weight) {
        for (int64_t c = 0; c < channels; ++c) {
          totals[c] += uint64_t{weight} * sums[static_cast<size_t>(column * channels + c)];
        }
      });
      for (int64_t c = 0; c < channels; ++c) {
        *out++ = static_cast<uint8_t>((totals[c] + area / 2) / area);
      }
    }
  }
}

}  // namespace millrace::augment
