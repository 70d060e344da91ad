#ifndef MILLRACE_AUGMENT_IMAGE_REGION_H_
#define MILLRACE_AUGMENT_IMAGE_REGION_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "base/philox.h"
#include "base/shape.h"

namespace millrace::augment {

// A rectangle of an image, in pixels.
struct Region {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;

  friend bool operator==(const Region&, const Region&) = default;
};

// Returns the part of the region that lies in an image of `shape`.
Region Visible(const Region& region, const Shape& shape);

// Returns the first of `crop` pixels in the middle of `size` pixels; negative if crop > size.
int64_t CenterOf(int64_t size, int64_t crop);

// Draws random_resized_crop's region of a height x width image; image_ops.h states
// the sequence of draws. REQUIRES: height, width > 0.
Region DrawCrop(int64_t height, int64_t width, const std::array<float, 2>& area,
                const std::array<float, 2>& aspect, RandomStream& random,
                int max_attempts = RandomResizedCropOptions().max_attempts);

// Draws random_crop's region of an image of `shape`; a row error (kValue) if the image is smaller.
absl::StatusOr<Region> DrawRandomCrop(const RandomCropOptions& options, const Shape& shape,
                                      RandomStream& random);

// Draws whether flip mirrors an image.
bool DrawFlip(float probability, RandomStream& random);

// Returns the window that pad shows of an image of `shape`; it reaches beyond the image.
Region PadRegion(const PadOptions& options, const Shape& shape);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_REGION_H_
