#include <algorithm>
#include <initializer_list>
#include <utility>

#include "augment/codec/decoder.h"
#include "base/status.h"
#include "readers/exif.h"

// Exif's orientations are the ways to mirror and transpose a rectangle. Pixel (y, x) of the upright
// image is pixel (y, x) of the stored one, or (x, y) from orientation 5 on, counted from the last
// row or column where rows or columns are mirrored. So a region of the upright image is one of the
// stored image, and only its pixels are decoded and turned.

namespace millrace::augment {
namespace {

struct Turn {
  bool transposed = false;
  bool mirrors_rows = false;     // of the stored image
  bool mirrors_columns = false;  // of the stored image
};

Turn TurnOf(int orientation) {
  constexpr auto kSet = [](std::initializer_list<int> list, int value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  return {readers::SwapsSides(orientation), kSet({3, 4, 6, 7}, orientation),
          kSet({2, 3, 7, 8}, orientation)};
}

class UprightDecoder final : public ImageDecoder {
 public:
  UprightDecoder(std::unique_ptr<ImageDecoder> decoder, int orientation)
      : decoder_(std::move(decoder)), turn_(TurnOf(orientation)) {
    info_ = decoder_->info();
    if (turn_.transposed) std::swap(info_.height, info_.width);
  }

  absl::Status CheckHeader() const override { return decoder_->CheckHeader(); }

  absl::Status DecodeAll(int channels, RunArena& arena, uint8_t* out) override {
    const readers::ImageHeader& stored = decoder_->info();
    const int64_t stride = stored.width * channels;
    auto* pixels = reinterpret_cast<uint8_t*>(
        arena.Allocate(static_cast<size_t>(stored.height * stride + kPixelsSlack)));
    MILLRACE_RETURN_IF_ERROR(decoder_->DecodeAll(channels, arena, pixels));
    Copy({pixels, stride}, {0, 0, stored.height, stored.width}, channels, out);
    return absl::OkStatus();
  }

  absl::StatusOr<Pixels> DecodeRegion(const Region& region, int channels,
                                      RunArena& arena) override {
    const Region stored = Turned(region, decoder_->info().height, decoder_->info().width);
    MILLRACE_ASSIGN_OR_RETURN(const Pixels pixels, decoder_->DecodeRegion(stored, channels, arena));
    return CopyTo(arena, pixels, stored, channels);
  }

  absl::StatusOr<Pixels> DecodeScaled(const Region& region, int denominator, int channels,
                                      RunArena& arena, Region* scaled) override {
    const Region stored = Turned(region, decoder_->info().height, decoder_->info().width);
    Region small;
    MILLRACE_ASSIGN_OR_RETURN(const Pixels pixels,
                              decoder_->DecodeScaled(stored, denominator, channels, arena, &small));
    // Where in the small image is of no interest to the caller, but for its extents.
    *scaled = {0, 0, turn_.transposed ? small.width : small.height,
               turn_.transposed ? small.height : small.width};
    return CopyTo(arena, pixels, small, channels);
  }

 private:
  // The stored pixels of a region of the upright image; `height` and `width` of the stored one.
  Region Turned(const Region& region, int64_t height, int64_t width) const {
    Region stored = region;
    if (turn_.transposed) stored = {region.left, region.top, region.width, region.height};
    if (turn_.mirrors_rows) stored.top = height - stored.top - stored.height;
    if (turn_.mirrors_columns) stored.left = width - stored.left - stored.width;
    return stored;
  }

  Pixels CopyTo(RunArena& arena, const Pixels& pixels, const Region& stored, int channels) const {
    const int64_t stride = (turn_.transposed ? stored.height : stored.width) * channels;
    const int64_t num_rows = turn_.transposed ? stored.width : stored.height;
    auto* out = reinterpret_cast<uint8_t*>(
        arena.Allocate(static_cast<size_t>(num_rows * stride + kPixelsSlack)));
    Copy(pixels, stored, channels, out);
    return {out, stride};
  }

  // Writes the turned pixels of `stored`, which begins at `pixels`, dense.
  void Copy(const Pixels& pixels, const Region& stored, int channels, uint8_t* out) const {
    int64_t row_step = pixels.stride, column_step = channels;
    const uint8_t* first = pixels.data;
    if (turn_.mirrors_rows) {
      first += (stored.height - 1) * row_step;
      row_step = -row_step;
    }
    if (turn_.mirrors_columns) {
      first += (stored.width - 1) * column_step;
      column_step = -column_step;
    }
    int64_t height = stored.height, width = stored.width;
    if (turn_.transposed) {
      std::swap(height, width);
      std::swap(row_step, column_step);
    }
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const uint8_t* pixel = first + y * row_step + x * column_step;
        for (int c = 0; c < channels; ++c) *out++ = pixel[c];
      }
    }
  }

  const std::unique_ptr<ImageDecoder> decoder_;
  const Turn turn_;
};

}  // namespace

std::unique_ptr<ImageDecoder> MakeUpright(std::unique_ptr<ImageDecoder> decoder, int orientation) {
  return std::make_unique<UprightDecoder>(std::move(decoder), orientation);
}

}  // namespace millrace::augment
