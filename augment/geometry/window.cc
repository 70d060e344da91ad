#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/field/convert.h"
#include "augment/geometry_ops.h"
#include "augment/image/errors.h"
#include "augment/image/options.h"
#include "augment/image/region.h"
#include "base/status.h"

// center_crop, random_crop and pad are one thing: a window that may reach beyond the image. Where
// it does, a mode says which pixel stands there. A row of the window is a stretch of a row of the
// image, which is one copy, and single pixels on both sides of it.

namespace millrace::augment {
namespace {

constexpr int64_t kMaxPad = 4096;

// The surroundings of the image: one pixel, or pixels of the image.
struct Border {
  PadMode mode = PadMode::kConstant;
  const std::byte* pixel = nullptr;  // of kConstant
};

// The row or column of the image that stands at `i`, or -1: the constant.
int64_t SourceOf(int64_t i, int64_t size, PadMode mode) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case PadMode::kEdge:
      return i < 0 ? 0 : size - 1;
    case PadMode::kReflect:
      return i < 0 ? -i : 2 * (size - 1) - i;
    case PadMode::kSymmetric:
      return i < 0 ? -i - 1 : 2 * size - 1 - i;
    case PadMode::kConstant:
      break;
  }
  return -1;
}

class Window {
 public:
  Window(const ConstTensorView& image, const Region& region, Border border)
      : image_(static_cast<const std::byte*>(image.data)),
        height_(image.shape[0]),
        width_(image.shape[1]),
        pixel_(static_cast<size_t>(image.shape[2]) * SizeOf(image.dtype)),
        region_(region),
        border_(border) {}

  void CopyTo(std::byte* out) const {
    const size_t row = static_cast<size_t>(region_.width) * pixel_;
    for (int64_t y = 0; y < region_.height; ++y, out += row) {
      const int64_t from = SourceOf(region_.top + y, height_, border_.mode);
      if (from < 0) {
        FillRow(out);
      } else {
        CopyRow(image_ + static_cast<size_t>(from * width_) * pixel_, out);
      }
    }
  }

 private:
  void FillRow(std::byte* out) const {
    for (int64_t x = 0; x < region_.width; ++x, out += pixel_) {
      std::memcpy(out, border_.pixel, pixel_);
    }
  }

  void CopyRow(const std::byte* row, std::byte* out) const {
    const int64_t first = std::clamp<int64_t>(-region_.left, 0, region_.width);
    const int64_t last = std::clamp<int64_t>(width_ - region_.left, first, region_.width);
    CopyAround(row, 0, first, out);
    std::memcpy(out + static_cast<size_t>(first) * pixel_,
                row + static_cast<size_t>(std::max<int64_t>(region_.left, 0)) * pixel_,
                static_cast<size_t>(last - first) * pixel_);
    CopyAround(row, last, region_.width, out);
  }

  void CopyAround(const std::byte* row, int64_t begin, int64_t end, std::byte* out) const {
    for (int64_t x = begin; x < end; ++x) {
      const int64_t from = SourceOf(region_.left + x, width_, border_.mode);
      const std::byte* pixel = from < 0 ? border_.pixel : row + static_cast<size_t>(from) * pixel_;
      std::memcpy(out + static_cast<size_t>(x) * pixel_, pixel, pixel_);
    }
  }

  const std::byte* const image_;
  const int64_t height_;
  const int64_t width_;
  const size_t pixel_;  // bytes
  const Region region_;
  const Border border_;
};

// One pixel of `channels` times `value`.
std::vector<std::byte> ConstantPixel(float value, DType dtype, int64_t channels) {
  const size_t size = SizeOf(dtype);
  std::vector<std::byte> pixel(static_cast<size_t>(channels) * size);
  for (size_t at = 0; at < pixel.size(); at += size) ConvertFloat(value, dtype, &pixel[at]);
  return pixel;
}

// Copies the window that `pick(run, row, shape)` names, or fails the row with what it says.
template <typename Pick>
void ApplyWindow(Run& run, const std::string& field, PadMode mode, float value, const Pick& pick) {
  const Column in = run.Take(field);
  Column& out = run.Add(field, in.dtype());
  std::vector<std::byte> pixel;
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (!run.ok(row)) continue;
    const ConstTensorView image = in.at(row);
    const int64_t channels = image.shape[2];
    const absl::StatusOr<Region> region = pick(run, row, image.shape);
    if (!region.ok()) {
      run.Fail(row, Annotate(region.status(), field));
      continue;
    }
    if (pixel.empty()) pixel = ConstantPixel(value, in.dtype(), channels);
    void* memory = run.Allocate(out, row, Shape{region->height, region->width, channels});
    Window(image, *region, {mode, pixel.data()}).CopyTo(static_cast<std::byte*>(memory));
  }
}

class CenterCrop final : public Op {
 public:
  explicit CenterCrop(CenterCropOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveExtents(input, options_.field, "center_crop", kAnyPixel, options_.height,
                          options_.width);
  }

  void Apply(Run& run) const override {
    ApplyWindow(run, options_.field, PadMode::kConstant, 0,
                [this](Run&, int64_t, const Shape& shape) -> absl::StatusOr<Region> {
                  return Region{CenterOf(shape[0], options_.height),
                                CenterOf(shape[1], options_.width), options_.height,
                                options_.width};
                });
  }

 private:
  const CenterCropOptions options_;
};

class RandomCrop final : public Op {
 public:
  RandomCrop(RandomCropOptions options, uint64_t stage)
      : options_(std::move(options)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveExtents(input, options_.field, "random_crop", kAnyPixel, options_.height,
                          options_.width);
  }

  void Apply(Run& run) const override {
    ApplyWindow(run, options_.field, PadMode::kConstant, 0,
                [this](Run& r, int64_t row, const Shape& shape) {
                  RandomStream random = r.Random(row, stage_);
                  return DrawRandomCrop(options_, shape, random);
                });
  }

 private:
  const RandomCropOptions options_;
  const uint64_t stage_;
};

class Pad final : public Op {
 public:
  explicit Pad(PadOptions options) : options_(std::move(options)) {
    if (options_.mode == PadMode::kEdge) least_ = {1, 1};
    const int64_t extra = options_.mode == PadMode::kReflect ? 1 : 0;
    if (options_.mode == PadMode::kReflect || options_.mode == PadMode::kSymmetric) {
      least_ = {std::max(options_.top, options_.bottom) + extra,
                std::max(options_.left, options_.right) + extra};
    }
  }

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(const Field field,
                              FindImage(input, options_.field, "pad", kAnyPixel));
    const auto grown = [](int64_t extent, int64_t by) {
      return extent == Shape::kUnknown ? extent : extent + by;
    };
    return ResolveExtents(input, options_.field, "pad", kAnyPixel,
                          grown(field.shape[0], options_.top + options_.bottom),
                          grown(field.shape[1], options_.left + options_.right));
  }

  void Apply(Run& run) const override {
    ApplyWindow(run, options_.field, options_.mode, options_.value,
                [this](Run&, int64_t, const Shape& shape) { return RegionOf(shape); });
  }

 private:
  absl::StatusOr<Region> RegionOf(const Shape& shape) const {
    if (shape[0] < least_[0] || shape[1] < least_[1]) {
      return RowError(RecordErrorReason::kValue,
                      absl::StrCat("image of shape ", shape.ToString(), " is smaller than the ",
                                   least_[0], " x ", least_[1], " pixels that its padding shows"));
    }
    return PadRegion(options_, shape);
  }

  const PadOptions options_;
  std::array<int64_t, 2> least_ = {0, 0};  // height and width that the mode needs
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeCenterCrop(CenterCropOptions options) {
  MILLRACE_RETURN_IF_ERROR(ValidateExtents("center_crop", options.height, options.width));
  return std::make_unique<CenterCrop>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeRandomCrop(RandomCropOptions options,
                                                   const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(ValidateExtents("random_crop", options.height, options.width));
  return std::make_unique<RandomCrop>(std::move(options), HashName(stage));
}

absl::StatusOr<std::unique_ptr<Op>> MakePad(PadOptions options) {
  for (int64_t pad : {options.top, options.bottom, options.left, options.right}) {
    if (pad >= 0 && pad <= kMaxPad) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("pad: ", pad, " pixels on one side; expected 0 to ", kMaxPad));
  }
  MILLRACE_RETURN_IF_ERROR(CheckFinite("pad", options.value));
  return std::make_unique<Pad>(std::move(options));
}

}  // namespace millrace::augment
