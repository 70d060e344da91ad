#ifndef MILLRACE_CLI_PAGE_ROW_IMAGE_H_
#define MILLRACE_CLI_PAGE_ROW_IMAGE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/schema.h"
#include "cli/page/row_value.h"
#include "pipeline/plan_view.h"

// Fields that are images, as PNG.

namespace millrace::cli {

// The way in which a field of the batches is an image.
struct ImageField {
  std::string name;
  pipeline::FieldHistory history;
  bool channels_first = false;  // true if the extents are channels, height, width
  bool layout_guessed = false;  // true if guessed from the extents, since the plan does not tell
};

// nullopt: the field is no image. Images are numbers [height, width, channels] or [channels,
// height, width] with 1, 3 or 4 channels, or uint8 [height, width] of at least 8 pixels each.
std::optional<ImageField> FindImageField(const Field& field, pipeline::FieldHistory history);

inline constexpr int64_t kMaxShownSide = 512;  // pixels

struct RowImage {
  std::vector<std::string> pngs;  // the image; then a fourth channel of its own, as grey
  int64_t height = 0;             // height of the PNGs
  int64_t width = 0;
  int64_t full_height = 0;
  int64_t full_width = 0;
  int64_t reduced_by = 1;  // a pixel of the PNGs is the mean of this many rows and columns
  std::string values;      // how values became pixels; "" if they are pixels
};

// uint8 values are pixels. Others are converted back to the uint8 values that they were, if the
// plan tells how; otherwise the image's smallest finite value is black and its largest white, NaN
// black. Channels that pad_channels has added are left out. An image with a side of more than
// kMaxShownSide is reduced.
//   INVALID_ARGUMENT  the row has no pixels, or its number of channels is not 1, 3 or 4
//   other             EncodePng's
absl::StatusOr<RowImage> MakeRowImage(const ImageField& field, const RowValue& value);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_PAGE_ROW_IMAGE_H_
