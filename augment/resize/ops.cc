#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/field/convert.h"
#include "augment/image/errors.h"
#include "augment/image/options.h"
#include "augment/image/region.h"
#include "augment/image_ops.h"
#include "augment/resize/image.h"
#include "base/status.h"

namespace millrace::augment {

namespace {

constexpr DType kResizable[] = {DType::kU8, DType::kF32};

// Resizes the region that `pick(row, shape)` names of every row's image, or fails the row with what
// it says.
template <typename Pick>
void ResizeRows(Run& run, const ResizeOptions& options, const Pick& pick) {
  const Column in = run.Take(options.field);
  Column& out = run.Add(options.field, options.dtype.value_or(in.dtype()));
  const auto resize = [&](int64_t row) -> absl::Status {
    const ConstTensorView image = in.at(row);
    MILLRACE_ASSIGN_OR_RETURN(const Region region, pick(row, image.shape));
    MILLRACE_ASSIGN_OR_RETURN(const Shape shape,
                              ResizedShape(options, {region.height, region.width, image.shape[2]}));
    void* const memory = run.Allocate(out, row, shape);
    const ArenaScratch scratch(run.arena());
    ResizeImage(ViewOf(image, region),
                {options.method, options.antialias, out.dtype(), shape[0], shape[1]}, memory,
                run.arena());
    return absl::OkStatus();
  };
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (!run.ok(row)) continue;
    const absl::Status status = resize(row);
    if (!status.ok()) run.Fail(row, Annotate(status, options.field));
  }
}

class Resize final : public Op {
 public:
  explicit Resize(ResizeOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    const bool any = options_.method == ResizeMethod::kNearest && !options_.dtype;
    const auto dtypes =
        any ? std::span<const DType>(kAnyPixel) : std::span<const DType>(kResizable);
    MILLRACE_ASSIGN_OR_RETURN(Field field, FindImage(input, options_.field, "resize", dtypes));
    const bool fixed = options_.shorter == 0;
    field.shape = Shape{fixed ? options_.height : Shape::kUnknown,
                        fixed ? options_.width : Shape::kUnknown, field.shape[2]};
    field.dtype = options_.dtype.value_or(field.dtype);
    Schema output = input;
    output.Set(std::move(field));
    return output;
  }

  void Apply(Run& run) const override {
    ResizeRows(run, options_, [](int64_t, const Shape& shape) -> absl::StatusOr<Region> {
      return Region{0, 0, shape[0], shape[1]};
    });
  }

 private:
  const ResizeOptions options_;
};

class RandomResizedCrop final : public Op {
 public:
  RandomResizedCrop(RandomResizedCropOptions options, uint64_t stage)
      : options_(std::move(options)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveExtents(input, options_.field, "random_resized_crop", kResizable, options_.height,
                          options_.width);
  }

  void Apply(Run& run) const override {
    ResizeRows(run, ResizeOf(options_), [&](int64_t row, const Shape& shape) {
      return Draw(shape, run.Random(row, stage_));
    });
  }

 private:
  absl::StatusOr<Region> Draw(const Shape& shape, RandomStream random) const {
    MILLRACE_RETURN_IF_ERROR(CheckResizable(shape));
    return DrawCrop(shape[0], shape[1], options_.area, options_.aspect, random,
                    options_.max_attempts);
  }

  const RandomResizedCropOptions options_;
  const uint64_t stage_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeRandomResizedCrop(RandomResizedCropOptions options,
                                                          const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(Validate(options));
  return std::make_unique<RandomResizedCrop>(std::move(options), HashName(stage));
}

absl::StatusOr<std::unique_ptr<Op>> MakeResize(ResizeOptions options) {
  if (options.shorter == 0) {
    MILLRACE_RETURN_IF_ERROR(ValidateExtents("resize", options.height, options.width));
  } else if (options.height != 0 || options.width != 0) {
    return absl::InvalidArgumentError("resize: shorter stands instead of height and width");
  } else {
    MILLRACE_RETURN_IF_ERROR(ValidateExtents("resize: shorter", options.shorter, options.shorter));
  }
  MILLRACE_RETURN_IF_ERROR(ValidateAntialias("resize", options.method, options.antialias));
  const DType dtype = options.dtype.value_or(DType::kU8);
  if (dtype != DType::kU8 && dtype != DType::kF32) {
    return absl::InvalidArgumentError(
        absl::StrCat("resize: dtype is ", ToAbsl(Name(dtype)), "; expected uint8 or float32"));
  }
  return std::make_unique<Resize>(std::move(options));
}

}  // namespace millrace::augment
