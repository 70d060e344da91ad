#include "augment/fused_ops.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/options_internal.h"
#include "augment/pixel_tail_internal.h"
#include "augment/region_internal.h"
#include "base/philox.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

// One of FirstOptions.
class FirstOp {
 public:
  FirstOp(FirstOptions options, std::string stage)
      : options_(std::move(options)), stage_(std::move(stage)), key_(HashName(stage_)) {}

  // The op itself, for what it says of options and fields; nullptr: there is none.
  absl::StatusOr<std::unique_ptr<Op>> MakeAlone() const {
    if (const auto* crop = std::get_if<RandomResizedCropOptions>(&options_)) {
      return MakeRandomResizedCrop(*crop, stage_);
    }
    if (const auto* resize = std::get_if<ResizeOptions>(&options_)) return MakeResize(*resize);
    if (const auto* crop = std::get_if<RandomCropOptions>(&options_)) {
      return MakeRandomCrop(*crop, stage_);
    }
    return std::unique_ptr<Op>();
  }

  // The pixels of `image` that it leaves.
  absl::StatusOr<PixelSource> Pick(const ConstTensorView& image, int64_t row,
                                   const Run& run) const {
    const Shape& shape = image.shape;
    if (const auto* crop = std::get_if<RandomResizedCropOptions>(&options_)) {
      MILLRACE_RETURN_IF_ERROR(CheckResizable(shape));
      RandomStream random = run.Random(row, key_);
      const Region region = DrawCrop(shape[0], shape[1], crop->area, crop->aspect, random);
      return Resized(SourceOf(image, region), crop->height, crop->width);
    }
    const Region all{0, 0, shape[0], shape[1]};
    if (const auto* resize = std::get_if<ResizeOptions>(&options_)) {
      MILLRACE_ASSIGN_OR_RETURN(const Shape to, ResizedShape(*resize, shape));
      return Resized(SourceOf(image, all), to[0], to[1]);
    }
    if (const auto* crop = std::get_if<RandomCropOptions>(&options_)) {
      RandomStream random = run.Random(row, key_);
      MILLRACE_ASSIGN_OR_RETURN(const Region region, DrawRandomCrop(*crop, shape, random));
      return SourceOf(image, region);
    }
    return SourceOf(image, all);
  }

 private:
  static PixelSource SourceOf(const ConstTensorView& image, const Region& region) {
    PixelSource source;
    source.dtype = image.dtype;
    source.stride = image.shape[1] * image.shape[2];
    source.height = region.height;
    source.width = region.width;
    source.channels = image.shape[2];
    const int64_t first = region.top * source.stride + region.left * source.channels;
    source.data = static_cast<const std::byte*>(image.data) +
                  static_cast<size_t>(first) * SizeOf(image.dtype);
    return source;
  }

  static PixelSource Resized(PixelSource source, int64_t height, int64_t width) {
    source.resized = true;
    source.out_height = height;
    source.out_width = width;
    return source;
  }

  const FirstOptions options_;
  const std::string stage_;
  const uint64_t key_;
};

class FusedImage final : public Op {
 public:
  FusedImage(std::string field, FirstOp first, std::unique_ptr<Op> alone, PixelTail tail)
      : field_(std::move(field)),
        first_(std::move(first)),
        alone_(std::move(alone)),
        tail_(std::move(tail)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    Schema schema = input;
    if (alone_ != nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(schema, alone_->Resolve(input));
    }
    MILLRACE_RETURN_IF_ERROR(schema.CheckHas(field_));
    return tail_.Resolve(std::move(schema), field_);
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(field_);
    Column& out = run.Add(field_, tail_.dtype());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const absl::StatusOr<PixelSource> source = first_.Pick(in.at(row), row, run);
      if (!source.ok()) {
        run.Fail(row, Annotate(source.status(), field_));
        continue;
      }
      const Shape shape = source->resized ? tail_.ShapeOf(source->out_height, source->out_width)
                                          : tail_.ShapeOf(source->height, source->width);
      tail_.Write(*source, row, run, run.Allocate(out, row, shape));
    }
  }

 private:
  const std::string field_;
  const FirstOp first_;
  const std::unique_ptr<Op> alone_;
  PixelTail tail_;  // constant after Resolve
};

}  // namespace

bool CanBeFirst(const ResizeOptions& options) {
  return options.method == ResizeMethod::kBilinear && !options.antialias && !options.dtype;
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
  if (options.decode) {
    const auto* crop = std::get_if<RandomResizedCropOptions>(&options.first);
    if (crop == nullptr) {
      return absl::InvalidArgumentError("a decode is fused with random_resized_crop only");
    }
    return MakeDecodeCropTail(*options.decode, *crop, options.first_stage, std::move(tail));
  }
  FirstOp first(std::move(options.first), std::move(options.first_stage));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Op> alone, first.MakeAlone());
  return std::make_unique<FusedImage>(std::move(options.field), std::move(first), std::move(alone),
                                      std::move(tail));
}

}  // namespace millrace::augment
