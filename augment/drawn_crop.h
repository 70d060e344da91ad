#ifndef MILLRACE_AUGMENT_DRAWN_CROP_H_
#define MILLRACE_AUGMENT_DRAWN_CROP_H_

#include <cstdint>

#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "base/philox.h"

// The windows of random crops, drawn again from a sample's random words, for tools that show
// samples.

namespace millrace::augment {

// A rectangle of an image, in pixels.
struct CropWindow {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
  friend bool operator==(const CropWindow&, const CropWindow&) = default;
};

// Returns the window that MakeRandomResizedCrop's op cuts out of a height x width image. REQUIRES:
// height, width > 0.
CropWindow DrawnCrop(const RandomResizedCropOptions& options, int64_t height, int64_t width,
                     RandomStream random);
// The same for MakeRandomCrop's op. REQUIRES: the image is not smaller than the crop.
CropWindow DrawnCrop(const RandomCropOptions& options, int64_t height, int64_t width,
                     RandomStream random);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_DRAWN_CROP_H_
