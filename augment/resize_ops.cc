#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/errors_internal.h"
#include "augment/image_ops.h"
#include "augment/options_internal.h"
#include "augment/region_internal.h"
#include "augment/resize_internal.h"
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
  return absl::OkStatus();
}

namespace {

absl::Status CheckExtents(const Shape& shape) {
  if (shape[0] > 0 && shape[1] > 0 && shape[2] > 0 && shape[0] <= kMaxInputExtent &&
      shape[1] <= kMaxInputExtent) {
    return absl::OkStatus();
  }
  return RowError(RecordErrorReason::kValue,
                  absl::StrCat("image of shape ", shape.ToString(), " cannot be resized"));
}

template <typename T>
void ResizeRow(const ConstTensorView& in, const Region& region, int64_t row, Column& out,
               const Shape& shape, Run& run) {
  const int64_t channels = in.shape[2];
  const int64_t stride = in.shape[1] * channels;
  const T* first = static_cast<const T*>(in.data) + region.top * stride + region.left * channels;
  ResizeBilinear(first, region.height, region.width, stride, channels,
                 static_cast<T*>(run.Allocate(out, row, shape)), shape[0], shape[1], run.arena());
}

// Resizes the region that `Pick(run, row, shape)` names of every row's image.
template <typename Pick>
void ResizeRows(Run& run, const std::string& field, int64_t height, int64_t width,
                const Pick& pick) {
  const Column in = run.Take(field);
  Column& out = run.Add(field, in.dtype());
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (!run.ok(row)) continue;
    const ConstTensorView image = in.at(row);
    if (absl::Status status = CheckExtents(image.shape); !status.ok()) {
      run.Fail(row, Annotate(status, field));
      continue;
    }
    const Region region = pick(row, image.shape);
    const Shape shape{height, width, image.shape[2]};
    if (in.dtype() == DType::kU8) {
      ResizeRow<uint8_t>(image, region, row, out, shape, run);
    } else {
      ResizeRow<float>(image, region, row, out, shape, run);
    }
  }
}

absl::StatusOr<Schema> ResolveResize(const Schema& input, const std::string& name,
                                     std::string_view op, int64_t height, int64_t width) {
  MILLRACE_ASSIGN_OR_RETURN(Field field, FindImage(input, name, op, kResizable));
  field.shape = Shape{height, width, field.shape[2]};
  Schema output = input;
  output.Set(std::move(field));
  return output;
}

class Resize final : public Op {
 public:
  explicit Resize(ResizeOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveResize(input, options_.field, "resize", options_.height, options_.width);
  }

  void Apply(Run& run) const override {
    ResizeRows(run, options_.field, options_.height, options_.width,
               [](int64_t, const Shape& shape) {
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
    ResizeRows(run, options_.field, options_.height, options_.width,
               [&](int64_t row, const Shape& shape) {
                 RandomStream random = run.Random(row, stage_);
                 return DrawCrop(shape[0], shape[1], options_.area, options_.aspect, random);
               });
  }

 private:
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
  MILLRACE_RETURN_IF_ERROR(ValidateExtents("resize", options.height, options.width));
  return std::make_unique<Resize>(std::move(options));
}

}  // namespace millrace::augment
