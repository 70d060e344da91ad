#ifndef MILLRACE_AUGMENT_FUSE_PIXEL_HEAD_H_
#define MILLRACE_AUGMENT_FUSE_PIXEL_HEAD_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "augment/fused_ops.h"
#include "augment/image/region.h"
#include "augment/resize/image.h"
#include "base/run.h"
#include "base/schema.h"

namespace millrace::augment {

// The pixels that a tail works on: a region of an image, as it is or resized.
struct PixelSource {
  PixelView pixels;
  std::optional<ResizeTarget> resized = std::nullopt;

  DType dtype() const { return resized ? resized->dtype : pixels.dtype; }
  int64_t height() const { return resized ? resized->height : pixels.height; }
  int64_t width() const { return resized ? resized->width : pixels.width; }
};

// The ops in front of a tail: a crop, a resize, or a crop and a resize of it. Immutable after
// Resolve.
class PixelHead {
 public:
  // `stage` is the name of the first op's stage. Errors are those of the ops' own Make functions.
  // REQUIRES: CanBeResized, if there is a `resize`.
  static absl::StatusOr<PixelHead> Make(FirstOptions first, std::optional<ResizeOptions> resize,
                                        const std::string& stage);

  // Does the same as the ops' own Resolve one after the other.
  absl::StatusOr<Schema> Resolve(Schema schema);

  // Returns the window of the image of `row`, which has `shape`; center_crop's may reach beyond it.
  //   INVALID_ARGUMENT  the crop does not take such an image (kValue)
  absl::StatusOr<Region> Window(const Shape& shape, int64_t row, const Run& run) const;

  // Returns the shape that such a window is resized to, or its own without a resize; kValue if it
  // cannot be resized.
  absl::StatusOr<Shape> Resized(const Shape& window) const;

  // Returns `pixels` of a window, perhaps decoded at a smaller size, together with their resize.
  // `out` is Resized of the window.
  PixelSource SourceOf(const PixelView& pixels, const Shape& out) const;

  // Returns Resized of every image with `channels`; nullopt if it differs from image to image.
  std::optional<Shape> FixedOutput(int64_t channels) const;

  bool resizes() const { return resize_.has_value(); }

 private:
  FirstOptions first_;
  std::optional<ResizeOptions> resize_;  // resize of the window
  uint64_t stage_ = 0;
  std::vector<std::shared_ptr<Op>> ops_;  // for Make and Resolve
};

// Copies the `visible` pixels of a window into memory of the window's size, with zeros around.
PixelView Surround(const PixelView& pixels, const Region& visible, const Region& window,
                   RunArena& arena);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSE_PIXEL_HEAD_H_
