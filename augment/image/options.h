#ifndef MILLRACE_AUGMENT_IMAGE_OPTIONS_H_
#define MILLRACE_AUGMENT_IMAGE_OPTIONS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "augment/image_ops.h"
#include "base/shape.h"

namespace millrace::augment {

// INVALID_ARGUMENT that names `op` unless both extents of an output lie in [1, 65536].
absl::Status ValidateExtents(std::string_view op, int64_t height, int64_t width);
absl::Status Validate(const RandomResizedCropOptions& options);
absl::Status Validate(const DecodeImageOptions& options);
// INVALID_ARGUMENT that names `op` where a method has no antialias.
absl::Status ValidateAntialias(std::string_view op, ResizeMethod method, bool antialias);
// What random_resized_crop does to its region.
ResizeOptions ResizeOf(const RandomResizedCropOptions& crop);

// kValue when an image of `shape` cannot be resized.
absl::Status CheckResizable(const Shape& shape);
// What resize makes of it; kValue as CheckResizable, and where it would become too long.
absl::StatusOr<Shape> ResizedShape(const ResizeOptions& options, const Shape& shape);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_OPTIONS_H_
