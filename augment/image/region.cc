#include "augment/image/region.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "augment/image/errors.h"

namespace millrace::augment {
namespace {

// Half to even, as Python's round.
int64_t Round(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

Region Central(int64_t height, int64_t width, const std::array<float, 2>& aspect) {
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  Region region{.height = height, .width = width};
  if (ratio < aspect[0]) region.height = Round(static_cast<double>(width) / aspect[0]);
  if (ratio > aspect[1]) region.width = Round(static_cast<double>(height) * aspect[1]);
  region.height = std::clamp<int64_t>(region.height, 1, height);
  region.width = std::clamp<int64_t>(region.width, 1, width);
  region.top = (height - region.height) / 2;
  region.left = (width - region.width) / 2;
  return region;
}

// Half of n; a half is rounded to the even number.
int64_t HalfToEven(int64_t n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0 ? 1 : 0); }

}  // namespace

Region Visible(const Region& region, const Shape& shape) {
  Region visible{std::max<int64_t>(region.top, 0), std::max<int64_t>(region.left, 0)};
  const int64_t bottom = std::min(region.top + region.height, shape[0]);
  const int64_t right = std::min(region.left + region.width, shape[1]);
  visible.height = std::max<int64_t>(bottom - visible.top, 0);
  visible.width = std::max<int64_t>(right - visible.left, 0);
  return visible;
}

int64_t CenterOf(int64_t size, int64_t crop) {
  return size >= crop ? HalfToEven(size - crop) : -((crop - size) / 2);
}

Region DrawCrop(int64_t height, int64_t width, const std::array<float, 2>& area,
                const std::array<float, 2>& aspect, RandomStream& random, int max_attempts) {
  const double pixels = static_cast<double>(height) * static_cast<double>(width);
  const double log_low = std::log(static_cast<double>(aspect[0]));
  const double log_high = std::log(static_cast<double>(aspect[1]));
  const double area_low = area[0], area_high = area[1];
  for (int i = 0; i < max_attempts; ++i) {
    const double target = pixels * (area_low + (area_high - area_low) * random.NextDouble());
    const double ratio = std::exp(log_low + (log_high - log_low) * random.NextDouble());
    const double crop_width = std::nearbyint(std::sqrt(target * ratio));
    const double crop_height = std::nearbyint(std::sqrt(target / ratio));
    // Compared as doubles: an extreme aspect can exceed an int64_t.
    if (!(crop_width >= 1 && crop_width <= static_cast<double>(width))) continue;
    if (!(crop_height >= 1 && crop_height <= static_cast<double>(height))) continue;
    Region region{.height = static_cast<int64_t>(crop_height),
                  .width = static_cast<int64_t>(crop_width)};
    region.top = static_cast<int64_t>(random.Below(height - region.height + 1));
    region.left = static_cast<int64_t>(random.Below(width - region.width + 1));
    return region;
  }
  return Central(height, width, aspect);
}

absl::StatusOr<Region> DrawRandomCrop(const RandomCropOptions& options, const Shape& shape,
                                      RandomStream& random) {
  if (shape[0] < options.height || shape[1] < options.width) {
    return RowError(RecordErrorReason::kValue,
                    absl::StrCat("image of shape ", shape.ToString(), " is smaller than ",
                                 options.height, " x ", options.width));
  }
  Region region{0, 0, options.height, options.width};
  region.top =
      static_cast<int64_t>(random.Below(static_cast<uint64_t>(shape[0] - options.height + 1)));
  region.left =
      static_cast<int64_t>(random.Below(static_cast<uint64_t>(shape[1] - options.width + 1)));
  return region;
}

bool DrawFlip(float probability, RandomStream& random) { return random.NextFloat() < probability; }

Region PadRegion(const PadOptions& options, const Shape& shape) {
  return {-options.top, -options.left, shape[0] + options.top + options.bottom,
          shape[1] + options.left + options.right};
}

}  // namespace millrace::augment
