#include "augment/fuse/mask.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace millrace::augment {
namespace {

// The pixel of the input under the middle of output pixel `i`; -1: beyond the image.
int64_t SourceOf(int64_t i, int64_t out, int64_t begin, int64_t extent, int64_t in, bool mirrored) {
  if (mirrored) i = out - 1 - i;
  const int64_t source = begin + (2 * i + 1) * extent / (2 * out);
  return source >= 0 && source < in ? source : -1;
}

// Source columns of all columns of the output.
std::vector<int64_t> SourceColumns(const Placement& placement, int64_t out, int64_t in) {
  std::vector<int64_t> columns(static_cast<size_t>(out));
  for (int64_t x = 0; x < out; ++x) {
    columns[static_cast<size_t>(x)] =
        SourceOf(x, out, placement.window.left, placement.window.width, in, placement.mirrored);
  }
  return columns;
}

// `pixel`: its bytes, a constant where that pays.
template <typename Size>
void GatherRow(const std::byte* row, std::span<const int64_t> columns, Size pixel, std::byte* to) {
  for (const int64_t column : columns) {
    if (column < 0) {
      std::memset(to, 0, pixel);
    } else {
      std::memcpy(to, row + static_cast<size_t>(column) * pixel, pixel);
    }
    to += pixel;
  }
}

// A row of the output whose columns follow each other in the mask: zeros, a stretch, and zeros.
void CopyStretch(const std::byte* row, std::span<const int64_t> columns, size_t pixel,
                 std::byte* to) {
  const auto inside = [](int64_t column) { return column >= 0; };
  const auto begin = std::ranges::find_if(columns, inside);
  const auto end = std::find_if_not(begin, columns.end(), inside);
  const auto bytes_of = [&](auto first, auto last) {
    return static_cast<size_t>(last - first) * pixel;
  };
  const size_t before = bytes_of(columns.begin(), begin), kept = bytes_of(begin, end);
  std::memset(to, 0, before);
  if (kept > 0) std::memcpy(to + before, row + static_cast<size_t>(*begin) * pixel, kept);
  std::memset(to + before + kept, 0, bytes_of(end, columns.end()));
}

}  // namespace

void MoveMask(const ConstTensorView& mask, const Placement& placement, const Shape& out,
              std::byte* to) {
  const size_t pixel = static_cast<size_t>(mask.shape[2]) * SizeOf(mask.dtype);
  const auto* from = static_cast<const std::byte*>(mask.data);
  const Region& window = placement.window;
  const std::vector<int64_t> columns = SourceColumns(placement, out[1], mask.shape[1]);
  const bool stretch = window.width == out[1] && !placement.mirrored;
  const size_t row_bytes = columns.size() * pixel;
  for (int64_t y = 0; y < out[0]; ++y, to += row_bytes) {
    const int64_t source =
        SourceOf(y, out[0], window.top, window.height, mask.shape[0], placement.upside_down);
    if (source < 0) {
      std::memset(to, 0, row_bytes);
      continue;
    }
    const std::byte* const row = from + static_cast<size_t>(source * mask.shape[1]) * pixel;
    if (stretch) {
      CopyStretch(row, columns, pixel, to);
    } else if (pixel == 1) {
      GatherRow(row, columns, std::integral_constant<size_t, 1>(), to);
    } else {
      GatherRow(row, columns, pixel, to);
    }
  }
}

}  // namespace millrace::augment
