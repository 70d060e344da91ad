#ifndef MILLRACE_AUGMENT_CARRY_H_
#define MILLRACE_AUGMENT_CARRY_H_

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "base/op.h"

// Boxes and masks that go along with an image which is cropped, resized, flipped or padded.

namespace millrace::augment {

struct BoxOptions {
  std::string field = "boxes";      // float32 [n, 4]
  bool corners = true;              // x1, y1, x2, y2; otherwise x1, y1, width, height
  bool normalized = false;          // shares of the image's width and height, not pixels
  std::vector<std::string> labels;  // fields [n, ...] whose elements are dropped along with boxes
  float min_area_share = 0;         // boxes of which less is left are dropped; 0 to 1
};

using GeometryOptions = std::variant<RandomResizedCropOptions, RandomCropOptions, CenterCropOptions,
                                     ResizeOptions, FlipOptions, PadOptions>;

struct CarryOptions {
  GeometryOptions geometry;
  std::optional<BoxOptions> boxes;
  std::string mask;  // [height, width, channels], as large as the image; empty: there is none
};

// The field of the image.
const std::string& FieldOf(const GeometryOptions& geometry);

// The op of `geometry`, drawing as it does alone, and the same done to boxes and mask:
//   boxes  pixel x of the image lies at [x, x + 1). In double, rounded to float32; clipped to the
//          image; dropped when what is rounded has no area left, or less than min_area_share of
//          what it was. A box that is not finite or ends before it begins is kValue, and so is a
//          label of another length than boxes.
//   mask   the pixel under the middle (ResizeMethod::kNearest); 0 beyond the image. A mask of
//          another size than its image is kValue.
// Pad in another mode than kConstant is INVALID_ARGUMENT: where it shows an object again it has no
// box.
absl::StatusOr<std::unique_ptr<Op>> MakeCarry(CarryOptions options, const std::string& stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_CARRY_H_
