#ifndef MILLRACE_AUGMENT_TARGETS_H_
#define MILLRACE_AUGMENT_TARGETS_H_

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "base/op.h"

// Targets of an image: boxes and masks that are cropped, resized, flipped or padded together with
// it.

namespace millrace::augment {

struct BoxOptions {
  std::string field = "boxes";      // float32 [n, 4]
  bool corners = true;              // true if x1, y1, x2, y2; false if x1, y1, width, height
  bool normalized = false;          // true if in fractions of width and height instead of pixels
  std::vector<std::string> labels;  // fields [n, ...]: their elements are dropped with the boxes
  float min_area_share = 0;         // least fraction of a box's area that keeps the box; 0 to 1
};

using GeometryOptions = std::variant<RandomResizedCropOptions, RandomCropOptions, CenterCropOptions,
                                     ResizeOptions, FlipOptions, PadOptions>;

struct TargetsOptions {
  GeometryOptions geometry;
  std::optional<BoxOptions> boxes;
  std::string mask;  // field [height, width, channels] of the image's size; empty: no mask
};

// Returns the name of the image's field.
const std::string& FieldOf(const GeometryOptions& geometry);

// Makes the op of `geometry`, which draws as it does alone, and moves boxes and mask in the same
// way:
//   boxes  Pixel x of the image lies at [x, x + 1). Boxes are moved in double and rounded to
//          float32, clipped to the image, and dropped if the rounded box has no area or less than
//          min_area_share of its former area. A box that is not finite or ends before it begins is
//          a row error (kValue), and so is a label of another length than the boxes.
//   mask   Each pixel is the one under its middle (ResizeMethod::kNearest), or 0 beyond the image.
//          A mask of another size than its image is a row error (kValue).
//   INVALID_ARGUMENT  an option is wrong, or pad has another mode than kConstant: it would show
//                     objects again that have no box
absl::StatusOr<std::unique_ptr<Op>> MakeWithTargets(TargetsOptions options,
                                                    const std::string& stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_TARGETS_H_
