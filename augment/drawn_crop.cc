#include "augment/drawn_crop.h"

#include "augment/region_internal.h"

namespace millrace::augment {

CropWindow DrawnCrop(const RandomResizedCropOptions& options, int64_t height, int64_t width,
                     RandomStream random) {
  const Region region = DrawCrop(height, width, options.area, options.aspect, random);
  return {region.top, region.left, region.height, region.width};
}

CropWindow DrawnCrop(const RandomCropOptions& options, int64_t height, int64_t width,
                     RandomStream random) {
  CropWindow window{.height = options.height, .width = options.width};
  window.top =
      static_cast<int64_t>(random.Below(static_cast<uint64_t>(height - options.height) + 1));
  window.left =
      static_cast<int64_t>(random.Below(static_cast<uint64_t>(width - options.width) + 1));
  return window;
}

}  // namespace millrace::augment
