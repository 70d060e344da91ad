#include "augment/resize/resize.h"

#include <algorithm>
#include <cmath>

#include "augment/resize/bilinear_rows.h"

// Vertical first: that pass runs over whole contiguous rows, as wide as the registers are, and
// leaves one float row per output row. Only then columns are gathered, once per output pixel
// (horizontal first would gather for up to two input rows per output row). A pixel of three
// channels is gathered as one load of four lanes. With AVX-512 it is not gathered at all: the
// pixels that become 16 values are so close together that one instruction looks the values up among
// two registers of the row (ColumnWindows); 43 us of an average crop became 33.

namespace millrace::augment {
namespace {

// Floats behind a blended row that a gather or a window may read.
constexpr int64_t kReadBehind = kWideWindowFloats;

float Ratio(int64_t in, int64_t out) { return static_cast<float>(in) / static_cast<float>(out); }

void Store(const float* in, int64_t count, float* out) { std::copy_n(in, count, out); }
void Store(const float* in, int64_t count, uint8_t* out) { RoundToBytes(in, count, out); }

}  // namespace

BilinearRows::Tap BilinearRows::MakeTap(int64_t i, float ratio, int64_t in) {
  const float position = (static_cast<float>(i) + 0.5f) * ratio - 0.5f;
  const auto cut = static_cast<int64_t>(position);  // rounded down, without a call of floor
  const int64_t first = position < static_cast<float>(cut) ? cut - 1 : cut;
  return {std::clamp<int64_t>(first, 0, in - 1), std::clamp<int64_t>(first + 1, 0, in - 1),
          position - static_cast<float>(first)};
}

BilinearRows::BilinearRows(const Extents& extents, bool mirrored, RunArena& arena)
    : extents_(extents),
      row_ratio_(Ratio(extents.in_height, extents.out_height)),
      blended_(AllocateArray<float>(arena, extents.in_width * extents.channels + kReadBehind)) {
  std::fill_n(blended_ + extents.in_width * extents.channels, kReadBehind, 0.0f);
  const int64_t count = (extents.out_width + kTapsPerStep - 1) / kTapsPerStep * kTapsPerStep;
  auto* const lower = AllocateArray<int32_t>(arena, count);
  auto* const upper = AllocateArray<int32_t>(arena, count);
  auto* const weights = AllocateArray<float>(arena, 4 * count);
  const float ratio = Ratio(extents.in_width, extents.out_width);
  for (int64_t i = 0; i < count; ++i) {
    Tap tap{0, 0, 0};
    if (i < extents.out_width) {
      tap = MakeTap(mirrored ? extents.out_width - 1 - i : i, ratio, extents.in_width);
    }
    lower[i] = static_cast<int32_t>(tap.lower * extents.channels);
    upper[i] = static_cast<int32_t>(tap.upper * extents.channels);
    std::fill_n(weights + 4 * i, 4, tap.weight);
  }
  columns_ = {lower, upper, weights, extents.out_width};
  if (extents.channels == 3 && HasColumnWindows()) MakeWindows(arena);
}

void BilinearRows::MakeWindows(RunArena& arena) {
  const int64_t values = columns_.count * 3;
  const int64_t count = (values + kWindowValues - 1) / kWindowValues;
  auto* const first = AllocateArray<int32_t>(arena, count);
  auto* const left = AllocateArray<int32_t>(arena, count * kWindowValues);
  auto* const right = AllocateArray<int32_t>(arena, count * kWindowValues);
  auto* const weights = AllocateArray<float>(arena, count * kWindowValues);
  const int64_t last_column = columns_.count - 1;
  int32_t reach = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * kWindowValues;
    // Places ascend from left to right, or descend.
    const int64_t ends[] = {begin / 3, std::min((begin + kWindowValues - 1) / 3, last_column)};
    first[i] = std::min(columns_.lower[ends[0]], columns_.lower[ends[1]]);
    reach =
        std::max(reach, std::max(columns_.upper[ends[0]], columns_.upper[ends[1]]) + 3 - first[i]);
    int64_t column = ends[0];
    auto channel = static_cast<int32_t>(begin % 3);
    for (int64_t value = begin; value < begin + kWindowValues; ++value) {
      left[value] = columns_.lower[column] + channel - first[i];
      right[value] = columns_.upper[column] + channel - first[i];
      weights[value] = columns_.weights[4 * column];
      if (++channel < 3) continue;
      channel = 0;
      column = std::min(column + 1, last_column);
    }
  }
  if (reach > kWideWindowFloats) return;
  windows_ = {first, left, right, weights, count, reach > kWindowFloats};
}

void BilinearRows::BlendColumns(float* out) const {
  for (int64_t i = 0; i < columns_.count; ++i) {
    for (int64_t c = 0; c < extents_.channels; ++c) {
      const float left = blended_[columns_.lower[i] + c];
      const float right = blended_[columns_.upper[i] + c];
      *out++ = left + (right - left) * columns_.weights[4 * i];
    }
  }
}

template <typename T>
void BilinearRows::Row(const T* in, int64_t stride, int64_t y, const PixelScaling& scaling,
                       float* out) {
  const Tap tap = MakeTap(y, row_ratio_, extents_.in_height);
  BlendRows(in + tap.lower * stride, in + tap.upper * stride, tap.weight,
            extents_.in_width * extents_.channels, blended_);
  if (windows_.count > 0) {
    BlendWindows3(blended_, windows_, scaling, out);
  } else if (extents_.channels == 3) {
    BlendColumns3(blended_, columns_, scaling, out);
  } else {
    BlendColumns(out);
  }
}

template void BilinearRows::Row(const uint8_t*, int64_t, int64_t, const PixelScaling&, float*);
template void BilinearRows::Row(const float*, int64_t, int64_t, const PixelScaling&, float*);

template <typename T>
void ResizeBilinear(const T* in, int64_t in_height, int64_t in_width, int64_t stride,
                    int64_t channels, T* out, int64_t out_height, int64_t out_width,
                    RunArena& arena) {
  BilinearRows rows({in_height, in_width, out_height, out_width, channels}, false, arena);
  const int64_t row_floats = rows.row_floats();
  float* const line = AllocateArray<float>(arena, row_floats + kRowSlack);
  for (int64_t y = 0; y < out_height; ++y, out += row_floats) {
    rows.Row(in, stride, y, {}, line);
    Store(line, row_floats, out);
  }
}

template void ResizeBilinear(const uint8_t*, int64_t, int64_t, int64_t, int64_t, uint8_t*, int64_t,
                             int64_t, RunArena&);
template void ResizeBilinear(const float*, int64_t, int64_t, int64_t, int64_t, float*, int64_t,
                             int64_t, RunArena&);

}  // namespace millrace::augment
