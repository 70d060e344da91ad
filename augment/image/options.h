#ifndef MILLRACE_AUGMENT_IMAGE_OPTIONS_H_
#define MILLRACE_AUGMENT_IMAGE_OPTIONS_H_

#include <array>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "augment/image_ops.h"
#include "base/shape.h"

namespace millrace::augment {

// INVALID_ARGUMENT "OP: NAME is VALUE; expected EXPECTED".
absl::Status OptionError(std::string_view op, std::string_view name, std::string_view value,
                         std::string_view expected);
// INVALID_ARGUMENT "OP: NAME is VALUE; expected LEAST to MOST" unless it is. NaN is not.
template <typename T>
absl::Status CheckNumber(std::string_view op, std::string_view name, T value,
                         std::type_identity_t<T> least, std::type_identity_t<T> most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return OptionError(op, name, absl::StrCat(value), absl::StrCat(least, " to ", most));
}
// INVALID_ARGUMENT "OP: NAME is [LOW, HIGH]; expected LEAST <= low <= high <= MOST" unless it is.
absl::Status CheckRange(std::string_view op, std::string_view name,
                        const std::array<float, 2>& range, float least, float most);
// INVALID_ARGUMENT "OP: value is VALUE; expected a finite number" unless it is.
absl::Status CheckFinite(std::string_view op, float value);

// INVALID_ARGUMENT that names `op` unless both extents of the output lie in [1, 65536].
absl::Status ValidateExtents(std::string_view op, int64_t height, int64_t width);
absl::Status Validate(const RandomResizedCropOptions& options);
absl::Status Validate(const DecodeImageOptions& options);
// INVALID_ARGUMENT that names `op` if `method` has no antialias and it is asked for.
absl::Status ValidateAntialias(std::string_view op, ResizeMethod method, bool antialias);
// Returns the resize that random_resized_crop applies to its region.
ResizeOptions ResizeOf(const RandomResizedCropOptions& crop);

// Returns a row error (kValue) if an image of `shape` cannot be resized.
absl::Status CheckResizable(const Shape& shape);
// Returns the shape of a resized image, or a row error (kValue): CheckResizable's, or the image
// would become too long.
absl::StatusOr<Shape> ResizedShape(const ResizeOptions& options, const Shape& shape);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_OPTIONS_H_
