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

// The pixels that a tail is given: a region of an image, as it is or resized.
struct PixelSource {
  PixelView pixels;
  std::optional<ResizeTarget> resized = std::nullopt;

  DType dtype() const { return resized ? resized->dtype : pixels.dtype; }
  int64_t height() const { return resized ? resized->height : pixels.height; }
  int64_t width() const { return resized ? resized->width : pixels.width; }
};

// What stands in front of a tail: a crop, a resize, or a crop and a resize of it. Immutable after
// Resolve.
class PixelHead {
 public:
  // INVALID_ARGUMENT as the ops' own Make functions. `stage` is the first's. REQUIRES:
  // CanBeResized, where `resize` is there.
  static absl::StatusOr<PixelHead> Make(FirstOptions first, std::optional<ResizeOptions> resize,
                                        const std::string& stage);

  // As the ops' own Resolve one after the other.
  absl::StatusOr<Schema> Resolve(Schema schema);

  // The window of an image of `shape` that is wanted of `row`; center_crop's may reach beyond it.
  //   INVALID_ARGUMENT  a crop does not take such an image (kValue)
  absl::StatusOr<Region> Window(const Shape& shape, int64_t row, const Run& run) const;

  // What a window of that shape is resized to, or that shape; kValue: it cannot be resized.
  absl::StatusOr<Shape> Resized(const Shape& window) const;

  // `pixels` of a window, or of it at a smaller size, with what becomes of them. `out` is what
  // Resized says of the window.
  PixelSource SourceOf(const PixelView& pixels, const Shape& out) const;

  // What Resized says, whatever the image, of one with `channels`; nullopt where that depends on
  // it.
  std::optional<Shape> FixedOutput(int64_t channels) const;

  bool resizes() const { return resize_.has_value(); }

 private:
  FirstOptions first_;
  std::optional<ResizeOptions> resize_;  // of the window
  uint64_t stage_ = 0;
  std::vector<std::shared_ptr<Op>> ops_;  // for Make and Resolve
};

// Pixels of `region` of `image`. REQUIRES: it lies within.
PixelView ViewOf(const ConstTensorView& image, const Region& region);
// Pixels of a window of an image of which only `visible` is there; zeros around it.
PixelView Surround(const PixelView& pixels, const Region& visible, const Region& window,
                   RunArena& arena);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSE_PIXEL_HEAD_H_
