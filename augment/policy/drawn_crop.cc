#include "augment/drawn_crop.h"

#include "augment/image/region.h"

namespace millrace::augment {
namespace {

CropWindow WindowOf(const Region& region) {
  return {region.top, region.left, region.height, region.width};
}

}  // namespace

CropWindow DrawnCrop(const RandomResizedCropOptions& options, int64_t height, int64_t width,
                     RandomStream random) {
  return WindowOf(
      DrawCrop(height, width, options.area, options.aspect, random, options.max_attempts));
}

CropWindow DrawnCrop(const RandomCropOptions& options, int64_t height, int64_t width,
                     RandomStream random) {
  return WindowOf(*DrawRandomCrop(options, {height, width}, random));
}

}  // namespace millrace::augment
