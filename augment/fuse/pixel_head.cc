#include "augment/fuse/pixel_head.h"

#include <cstring>
#include <utility>

#include "augment/image/options.h"
#include "base/overloaded.h"
#include "base/philox.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

using MadeOp = absl::StatusOr<std::unique_ptr<Op>>;

MadeOp MakeFirst(const FirstOptions& first, const std::string& stage) {
  return std::visit(
      Overloaded{[](std::monostate) -> MadeOp { return std::unique_ptr<Op>(); },
                 [&](const RandomResizedCropOptions& o) { return MakeRandomResizedCrop(o, stage); },
                 [&](const RandomCropOptions& o) { return MakeRandomCrop(o, stage); },
                 [](const CenterCropOptions& o) { return MakeCenterCrop(o); },
                 [](const ResizeOptions& o) { return MakeResize(o); }},
      first);
}

}  // namespace

absl::StatusOr<PixelHead> PixelHead::Make(FirstOptions first, std::optional<ResizeOptions> resize,
                                          const std::string& stage) {
  PixelHead head;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Op> first_op, MakeFirst(first, stage));
  if (first_op != nullptr) head.ops_.push_back(std::move(first_op));
  if (resize) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, MakeResize(*resize));
    head.ops_.push_back(std::move(op));
  }
  if (const auto* crop = std::get_if<RandomResizedCropOptions>(&first)) resize = ResizeOf(*crop);
  if (const auto* whole = std::get_if<ResizeOptions>(&first)) resize = *whole;
  head.first_ = std::move(first);
  head.resize_ = std::move(resize);
  head.stage_ = HashName(stage);
  return head;
}

absl::StatusOr<Schema> PixelHead::Resolve(Schema schema) {
  for (const std::shared_ptr<Op>& op : ops_) {
    MILLRACE_ASSIGN_OR_RETURN(schema, op->Resolve(schema));
  }
  return schema;
}

absl::StatusOr<Region> PixelHead::Window(const Shape& shape, int64_t row, const Run& run) const {
  const Region all{0, 0, shape[0], shape[1]};
  if (std::holds_alternative<std::monostate>(first_) ||
      std::holds_alternative<ResizeOptions>(first_)) {
    return all;
  }
  if (const auto* crop = std::get_if<CenterCropOptions>(&first_)) {
    return Region{CenterOf(shape[0], crop->height), CenterOf(shape[1], crop->width), crop->height,
                  crop->width};
  }
  RandomStream random = run.Random(row, stage_);
  if (const auto* crop = std::get_if<RandomCropOptions>(&first_)) {
    return DrawRandomCrop(*crop, shape, random);
  }
  MILLRACE_RETURN_IF_ERROR(CheckResizable(shape));
  const auto& crop = std::get<RandomResizedCropOptions>(first_);
  return DrawCrop(shape[0], shape[1], crop.area, crop.aspect, random, crop.max_attempts);
}

absl::StatusOr<Shape> PixelHead::Resized(const Shape& window) const {
  return resize_ ? ResizedShape(*resize_, window) : window;
}

PixelSource PixelHead::SourceOf(const PixelView& pixels, const Shape& out) const {
  PixelSource source{pixels};
  if (resize_) {
    source.resized = ResizeTarget{resize_->method, resize_->antialias,
                                  resize_->dtype.value_or(pixels.dtype), out[0], out[1]};
  }
  return source;
}

std::optional<Shape> PixelHead::FixedOutput(int64_t channels) const {
  Shape window{1, 1, channels};  // where a resize has its extents given, any does
  if (const auto* crop = std::get_if<RandomCropOptions>(&first_)) {
    window = {crop->height, crop->width, channels};
  } else if (const auto* center = std::get_if<CenterCropOptions>(&first_)) {
    window = {center->height, center->width, channels};
  } else if (!resize_ || resize_->shorter != 0) {
    return std::nullopt;
  }
  const absl::StatusOr<Shape> out = Resized(window);
  return out.ok() ? std::optional(*out) : std::nullopt;
}

PixelView Surround(const PixelView& pixels, const Region& visible, const Region& window,
                   RunArena& arena) {
  const size_t pixel = static_cast<size_t>(pixels.channels) * SizeOf(pixels.dtype);
  const size_t row = static_cast<size_t>(window.width) * pixel;
  std::byte* const out = arena.Allocate(static_cast<size_t>(window.height) * row);
  std::memset(out, 0, static_cast<size_t>(window.height) * row);
  const size_t in_row = static_cast<size_t>(pixels.stride) * SizeOf(pixels.dtype);
  std::byte* to = out + static_cast<size_t>(visible.top - window.top) * row +
                  static_cast<size_t>(visible.left - window.left) * pixel;
  const auto* from = static_cast<const std::byte*>(pixels.data);
  for (int64_t y = 0; y < visible.height; ++y, from += in_row, to += row) {
    std::memcpy(to, from, static_cast<size_t>(visible.width) * pixel);
  }
  return {out,           pixels.dtype, window.width * pixels.channels,
          window.height, window.width, pixels.channels};
}

}  // namespace millrace::augment
