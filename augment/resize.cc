#include <algorithm>
#include <cmath>

#include "augment/bilinear_rows_internal.h"
#include "augment/resize_internal.h"

// Vertical first: that pass runs over whole contiguous rows, as wide as the registers are, and
// leaves one float row per output row. Only then columns are gathered, once per output pixel
// (horizontal first would gather for up to two input rows per output row). A pixel of three
// channels is gathered as one load of four lanes, so the row has room for one lane more.

namespace millrace::augment {
namespace {

template <typename T>
T* AllocateArray(RunArena& arena, int64_t count) {
  return reinterpret_cast<T*>(arena.Allocate(static_cast<size_t>(count) * sizeof(T)));
}

float Ratio(int64_t in, int64_t out) { return static_cast<float>(in) / static_cast<float>(out); }

void Store(const float* in, int64_t count, float* out) { std::copy_n(in, count, out); }
void Store(const float* in, int64_t count, uint8_t* out) { RoundToBytes(in, count, out); }

}  // namespace

BilinearRows::Tap BilinearRows::MakeTap(int64_t i, float ratio, int64_t in) {
  const float position = (static_cast<float>(i) + 0.5f) * ratio - 0.5f;
  const float floor = std::floor(position);
  const auto first = static_cast<int64_t>(floor);
  return {std::clamp<int64_t>(first, 0, in - 1), std::clamp<int64_t>(first + 1, 0, in - 1),
          position - floor};
}

BilinearRows::BilinearRows(const Extents& extents, bool mirrored, RunArena& arena)
    : extents_(extents),
      row_ratio_(Ratio(extents.in_height, extents.out_height)),
      blended_(AllocateArray<float>(arena, extents.in_width * extents.channels + 4)) {
  std::fill_n(blended_ + extents.in_width * extents.channels, 4, 0.0f);
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
  if (extents_.channels == 3) {
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
