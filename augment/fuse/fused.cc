#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/fuse/decode_crop.h"
#include "augment/fuse/pixel_tail.h"
#include "augment/fused_ops.h"
#include "augment/image/options.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

class FusedImage final : public Op {
 public:
  FusedImage(std::string field, PixelHead head, PixelTail tail)
      : field_(std::move(field)), head_(std::move(head)), tail_(std::move(tail)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(Schema schema, head_.Resolve(input));
    MILLRACE_RETURN_IF_ERROR(schema.CheckHas(field_));
    return tail_.Resolve(std::move(schema), field_);
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(field_);
    Column& out = run.Add(field_, tail_.dtype());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const absl::StatusOr<PixelSource> source = Pick(in.at(row), row, run);
      if (!source.ok()) {
        run.Fail(row, Annotate(source.status(), field_));
        continue;
      }
      const Shape shape = tail_.ShapeOf(source->height(), source->width());
      tail_.Write(*source, row, run, run.Allocate(out, row, shape));
    }
  }

 private:
  absl::StatusOr<PixelSource> Pick(const ConstTensorView& image, int64_t row, Run& run) const {
    MILLRACE_ASSIGN_OR_RETURN(const Region window, head_.Window(image.shape, row, run));
    MILLRACE_ASSIGN_OR_RETURN(const Shape out,
                              head_.Resized({window.height, window.width, image.shape[2]}));
    const Region visible = Visible(window, image.shape);
    const PixelView pixels = ViewOf(image, visible);
    if (visible == window) return head_.SourceOf(pixels, out);
    return head_.SourceOf(Surround(pixels, visible, window, run.arena()), out);
  }

  const std::string field_;
  PixelHead head_;  // constant after Resolve, and so is tail_
  PixelTail tail_;
};

// The crop that `first` is.
absl::StatusOr<CropOptions> CropOf(FirstOptions first) {
  return std::visit(
      [](auto& options) -> absl::StatusOr<CropOptions> {
        if constexpr (std::is_constructible_v<CropOptions, decltype(options)>) {
          return CropOptions(std::move(options));
        }
        return absl::InvalidArgumentError("a decode is fused with a crop or a resize only");
      },
      first);
}

}  // namespace

bool CanBeResized(const FirstOptions& first, const ResizeOptions& resize) {
  // The crop's extents are given, so whether they can be resized is known, and what to.
  const auto* random = std::get_if<RandomCropOptions>(&first);
  if (random != nullptr) return ResizedShape(resize, {random->height, random->width, 1}).ok();
  const auto* center = std::get_if<CenterCropOptions>(&first);
  return center != nullptr && ResizedShape(resize, {center->height, center->width, 1}).ok();
}

bool CanFollow(const std::vector<PixelStep>& steps, const PixelOptions& next) {
  const auto* transpose = std::get_if<TransposeOptions>(&next);
  if (transpose != nullptr && transpose->perm != std::vector<int64_t>{2, 0, 1}) return false;
  for (const PixelStep& step : steps) {
    const bool planes = std::holds_alternative<TransposeOptions>(step.options);
    if (planes && !std::holds_alternative<CastOptions>(next)) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Op>> MakeFusedImage(FusedImageOptions options) {
  MILLRACE_ASSIGN_OR_RETURN(PixelTail tail, PixelTail::Make(std::move(options.steps)));
  if (options.resize && !CanBeResized(options.first, *options.resize)) {
    return absl::InvalidArgumentError("a resize is fused behind random_crop or center_crop only");
  }
  if (options.decode) {
    MILLRACE_ASSIGN_OR_RETURN(CropOptions crop, CropOf(std::move(options.first)));
    MILLRACE_ASSIGN_OR_RETURN(
        std::unique_ptr<DecodeCrop> op,
        DecodeCrop::Make(*std::move(options.decode), std::move(crop), std::move(options.resize),
                         options.first_stage, std::move(tail)));
    return op;
  }
  MILLRACE_ASSIGN_OR_RETURN(
      PixelHead head,
      PixelHead::Make(std::move(options.first), std::move(options.resize), options.first_stage));
  return std::make_unique<FusedImage>(std::move(options.field), std::move(head), std::move(tail));
}

}  // namespace millrace::augment
