#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/convert_internal.h"
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

absl::Status CheckResizable(const Shape& shape) {
  if (shape[0] > 0 && shape[1] > 0 && shape[2] > 0 && shape[0] <= kMaxInputExtent &&
      shape[1] <= kMaxInputExtent) {
    return absl::OkStatus();
  }
  return RowError(RecordErrorReason::kValue,
                  absl::StrCat("image of shape ", shape.ToString(), " cannot be resized"));
}

absl::StatusOr<Shape> ResizedShape(const ResizeOptions& options, const Shape& in) {
  MILLRACE_RETURN_IF_ERROR(CheckResizable(in));
  const bool kernel = options.antialias || options.method == ResizeMethod::kBicubic;
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
    if (absl::Status status = CheckResizable(image.shape); !status.ok()) {
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

// The image of `row` with every value as float32.
const float* ToFloats(const ConstTensorView& image, RunArena& arena) {
  if (image.dtype == DType::kF32) return static_cast<const float*>(image.data);
  const auto bytes = image.as<uint8_t>();
  auto* floats = reinterpret_cast<float*>(arena.Allocate(bytes.size() * sizeof(float)));
  std::ranges::copy(bytes, floats);
  return floats;
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
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, options_.dtype.value_or(in.dtype()));
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView image = in.at(row);
      const absl::StatusOr<Shape> shape = ResizedShape(options_, image.shape);
      if (!shape.ok()) {
        run.Fail(row, Annotate(shape.status(), options_.field));
        continue;
      }
      ResizeImage(image, out.dtype(), *shape, run.Allocate(out, row, *shape), run.arena());
    }
  }

 private:
  void ResizeImage(const ConstTensorView& image, DType dtype, const Shape& shape, void* out,
                   RunArena& arena) const {
    if (options_.method == ResizeMethod::kNearest && dtype == image.dtype) {
      const size_t pixel = static_cast<size_t>(shape[2]) * SizeOf(dtype);
      return ResizeNearest(static_cast<const std::byte*>(image.data), image.shape[0],
                           image.shape[1], pixel, static_cast<std::byte*>(out), shape[0], shape[1]);
    }
    if (dtype == DType::kU8 && image.dtype == DType::kU8) {
      return ResizeAs(static_cast<const uint8_t*>(image.data), image.shape, shape,
                      static_cast<uint8_t*>(out), arena);
    }
    const float* floats = ToFloats(image, arena);
    if (dtype == DType::kF32) {
      return ResizeAs(floats, image.shape, shape, static_cast<float*>(out), arena);
    }
    const auto count = static_cast<size_t>(shape.num_elements());
    auto* resized = reinterpret_cast<float*>(arena.Allocate(count * sizeof(float)));
    ResizeAs(floats, image.shape, shape, resized, arena);
    std::transform(resized, resized + count, static_cast<uint8_t*>(out), ToByte);
  }

  static uint8_t ToByte(float value) {
    uint8_t byte = 0;
    ConvertFloat(value, DType::kU8, &byte);
    return byte;
  }

  template <typename T>
  void ResizeAs(const T* in, const Shape& from, const Shape& to, T* out, RunArena& arena) const {
    const ImageView<T> view{in, from[0], from[1], from[1] * from[2], from[2]};
    const ImageTarget<T> target{out, to[0], to[1]};
    const size_t pixel = static_cast<size_t>(from[2]) * sizeof(T);
    switch (options_.method) {
      case ResizeMethod::kNearest:
        return ResizeNearest(reinterpret_cast<const std::byte*>(in), from[0], from[1], pixel,
                             reinterpret_cast<std::byte*>(out), to[0], to[1]);
      case ResizeMethod::kArea:
        return ResizeArea(in, from[0], from[1], from[2], out, to[0], to[1]);
      case ResizeMethod::kBicubic:
        if (!options_.antialias) return ResizeBicubic(view, target, arena);
        return ResizeAntialias(view, true, target, arena);
      case ResizeMethod::kBilinear:
        break;
    }
    if (options_.antialias) return ResizeAntialias(view, false, target, arena);
    ResizeBilinear(in, from[0], from[1], view.stride, from[2], out, to[0], to[1], arena);
  }

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
  if (options.shorter == 0) {
    MILLRACE_RETURN_IF_ERROR(ValidateExtents("resize", options.height, options.width));
  } else if (options.height != 0 || options.width != 0) {
    return absl::InvalidArgumentError("resize: shorter stands instead of height and width");
  } else {
    MILLRACE_RETURN_IF_ERROR(ValidateExtents("resize: shorter", options.shorter, options.shorter));
  }
  const bool has_kernel =
      options.method == ResizeMethod::kBilinear || options.method == ResizeMethod::kBicubic;
  if (options.antialias && !has_kernel) {
    return absl::InvalidArgumentError("resize: only bilinear and bicubic have antialias");
  }
  const DType dtype = options.dtype.value_or(DType::kU8);
  if (dtype != DType::kU8 && dtype != DType::kF32) {
    return absl::InvalidArgumentError(
        absl::StrCat("resize: dtype is ", ToAbsl(Name(dtype)), "; expected uint8 or float32"));
  }
  return std::make_unique<Resize>(std::move(options));
}

}  // namespace millrace::augment
