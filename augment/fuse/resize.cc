#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/field/convert.h"
#include "augment/fuse/pixel_head.h"
#include "augment/image/errors.h"
#include "augment/image/options.h"
#include "augment/image/region.h"
#include "augment/image_ops.h"
#include "augment/resize/image.h"
#include "base/status.h"

namespace millrace::augment {

constexpr DType kResizable[] = {DType::kU8, DType::kF32};
constexpr int64_t kMaxExtent = 1 << 16;
constexpr int64_t kMaxInputExtent = 1 << 24;  // float32 counts every pixel up to here

absl::Status ValidateExtents(std::string_view op, int64_t height, int64_t width) {
  if (height >= 1 && height <= kMaxExtent && width >= 1 && width <= kMaxExtent) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(op), ": height x width is ", height, " x ",
                                                 width, "; expected 1 to ", kMaxExtent, " each"));
}

absl::Status Validate(const RandomResizedCropOptions& options) {
  MILLRACE_RETURN_IF_ERROR(ValidateExtents("random_resized_crop", options.height, options.width));
  const auto [area_low, area_high] = options.area;
  if (!(area_low > 0 && area_low <= area_high && area_high <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("random_resized_crop: area is [", area_low, ", ",
                                                   area_high, "]; expected 0 < low <= high <= 1"));
  }
  const auto [aspect_low, aspect_high] = options.aspect;
  if (!(aspect_low >= 1e-3f && aspect_low <= aspect_high && aspect_high <= 1e3f)) {
    return absl::InvalidArgumentError(absl::StrCat("random_resized_crop: aspect is [", aspect_low,
                                                   ", ", aspect_high,
                                                   "]; expected 0.001 <= low <= high <= 1000"));
  }
  if (options.max_attempts < 1 || options.max_attempts > kMaxCropAttempts) {
    return absl::InvalidArgumentError(absl::StrCat("random_resized_crop: max_attempts is ",
                                                   options.max_attempts, "; expected 1 to ",
                                                   kMaxCropAttempts));
  }
  return ValidateAntialias("random_resized_crop", options.interpolation, options.antialias);
}

absl::Status ValidateAntialias(std::string_view op, ResizeMethod method, bool antialias) {
  const bool has_kernel = method == ResizeMethod::kBilinear || method == ResizeMethod::kBicubic;
  if (!antialias || has_kernel) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(op), ": only bilinear and bicubic have antialias"));
}

ResizeOptions ResizeOf(const RandomResizedCropOptions& crop) {
  return {.field = crop.field,
          .height = crop.height,
          .width = crop.width,
          .method = crop.interpolation,
          .antialias = crop.antialias};
}

absl::Status CheckResizable(const Shape& shape) {
  // A place in a row is an int32.
  constexpr int64_t kMaxRowValues = std::numeric_limits<int32_t>::max();
  if (shape[0] > 0 && shape[1] > 0 && shape[2] > 0 && shape[0] <= kMaxInputExtent &&
      shape[1] <= kMaxInputExtent && shape[2] <= kMaxRowValues / shape[1]) {
    return absl::OkStatus();
  }
  return RowError(RecordErrorReason::kValue,
                  absl::StrCat("image of shape ", shape.ToString(), " cannot be resized"));
}

absl::StatusOr<Shape> ResizedShape(const ResizeOptions& options, const Shape& in) {
  MILLRACE_RETURN_IF_ERROR(CheckResizable(in));
  // Those that keep a table of the input's pixels.
  const bool kernel = options.antialias || options.method == ResizeMethod::kBicubic ||
                      options.method == ResizeMethod::kArea;
  const int64_t longer = std::max(in[0], in[1]);
  const int64_t shorter = std::min(in[0], in[1]);
  const int64_t stretched = options.shorter * longer / shorter;
  if ((kernel && longer > kMaxExtent) || stretched > kMaxExtent) {
    return RowError(RecordErrorReason::kValue,
                    absl::StrCat("image of shape ", in.ToString(), " is too long to be resized"));
  }
  if (options.shorter == 0) return Shape{options.height, options.width, in[2]};
  return in[0] < in[1] ? Shape{options.shorter, stretched, in[2]}
                       : Shape{stretched, options.shorter, in[2]};
}

namespace {

absl::StatusOr<Schema> ResolveResize(const Schema& input, const std::string& name,
                                     std::string_view op, int64_t height, int64_t width) {
  MILLRACE_ASSIGN_OR_RETURN(Field field, FindImage(input, name, op, kResizable));
  field.shape = Shape{height, width, field.shape[2]};
  Schema output = input;
  output.Set(std::move(field));
  return output;
}

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
    return ResolveResize(input, options_.field, "random_resized_crop", options_.height,
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
