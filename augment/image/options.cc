#include "augment/image/options.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "augment/image/errors.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr int64_t kMaxExtent = 1 << 16;
constexpr int64_t kMaxInputExtent = 1 << 24;  // float32 counts every pixel up to here

}  // namespace

absl::Status OptionError(std::string_view op, std::string_view name, std::string_view value,
                         std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(op), ": ", ToAbsl(name), " is ",
                                                 ToAbsl(value), "; expected ", ToAbsl(expected)));
}

absl::Status CheckRange(std::string_view op, std::string_view name,
                        const std::array<float, 2>& range, float least, float most) {
  const auto [low, high] = range;
  if (low >= least && low <= high && high <= most) return absl::OkStatus();
  return OptionError(op, name, absl::StrCat("[", low, ", ", high, "]"),
                     absl::StrCat(least, " <= low <= high <= ", most));
}

absl::Status CheckFinite(std::string_view op, float value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return OptionError(op, "value", absl::StrCat(value), "a finite number");
}

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
  MILLRACE_RETURN_IF_ERROR(CheckNumber("random_resized_crop", "max_attempts", options.max_attempts,
                                       1, kMaxCropAttempts));
  return ValidateAntialias("random_resized_crop", options.interpolation, options.antialias);
}

absl::Status Validate(const DecodeImageOptions& options) {
  if (options.field.empty() || options.output.empty()) {
    return absl::InvalidArgumentError("decode_image: field and output must be named");
  }
  if (options.channels != 1 && options.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode_image: channels is ", options.channels, "; expected 1 or 3"));
  }
  const std::pair<const char*, int64_t> limits[] = {{"max_pixels", options.max_pixels},
                                                    {"max_scans", options.max_scans},
                                                    {"max_memory_bytes", options.max_memory_bytes}};
  for (const auto& [name, limit] : limits) {
    if (limit > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("decode_image: ", name, " is ", limit, "; expected > 0"));
  }
  if (options.verify_full && options.allow_truncated) {
    return absl::InvalidArgumentError("decode_image: verify_full and allow_truncated: not both");
  }
  return absl::OkStatus();
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

}  // namespace millrace::augment
