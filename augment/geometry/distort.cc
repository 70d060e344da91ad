#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "augment/distort_ops.h"
#include "augment/field/convert.h"
#include "augment/geometry/affine.h"
#include "augment/image/errors.h"
#include "augment/image/map_images.h"
#include "augment/image/options.h"
#include "augment/image/region.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr DType kBytesOnly[] = {DType::kU8};
constexpr int64_t kMaxSize = 1 << 16;

double Draw(const std::array<float, 2>& range, RandomStream& random) {
  const double low = range[0];
  return low + (double{range[1]} - low) * random.NextDouble();
}

class Affine final : public Op {
 public:
  Affine(AffineOptions options, uint64_t stage) : options_(std::move(options)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_RETURN_IF_ERROR(FindImage(input, options_.field, "affine", kBytesOnly).status());
    return input;
  }

  void Apply(Run& run) const override {
    MapImages(run, options_.field, stage_,
              [this](RandomStream& random, const ColorImage& in, uint8_t* out, RunArena&) {
                if (const auto drawn = DrawAffine(options_, in.height, in.width, random)) {
                  Warp(in, *drawn, out);
                } else {
                  std::copy_n(in.data, in.size(), out);
                }
                return absl::OkStatus();
              });
  }

 private:
  void Warp(const ColorImage& in, const AffineParameters& parameters, uint8_t* out) const {
    const AffineMatrix matrix = InverseAffine(parameters, in.height, in.width);
    const auto fill = static_cast<uint8_t>(options_.fill);
    if (options_.bilinear) return WarpBilinear(in, matrix, fill, out);
    WarpNearest(in, matrix, fill, out);
  }

  const AffineOptions options_;
  const uint64_t stage_;
};

// Writes `value` over the region.
void Blot(const Region& region, int64_t width, size_t pixel, DType dtype, float value,
          std::byte* image) {
  const size_t size = SizeOf(dtype);
  std::byte element[8];
  ConvertFloat(value, dtype, element);
  const auto stride = static_cast<size_t>(width) * pixel;
  image += static_cast<size_t>(region.top) * stride + static_cast<size_t>(region.left) * pixel;
  for (int64_t y = 0; y < region.height; ++y, image += stride) {
    for (size_t at = 0; at < static_cast<size_t>(region.width) * pixel; at += size) {
      std::memcpy(image + at, element, size);
    }
  }
}

std::optional<Region> DrawRegion(const RandomErasingOptions& options, const Shape& shape,
                                 RandomStream& random) {
  const double image_area = static_cast<double>(shape[0]) * static_cast<double>(shape[1]);
  const double low = std::log(double{options.aspect[0]});
  const double high = std::log(double{options.aspect[1]});
  for (int tries = 0; tries < 10; ++tries) {
    const double area = image_area * Draw(options.area, random);
    const double aspect = std::exp(low + (high - low) * random.NextDouble());
    Region region;
    region.height = static_cast<int64_t>(std::nearbyint(std::sqrt(area * aspect)));
    region.width = static_cast<int64_t>(std::nearbyint(std::sqrt(area / aspect)));
    if (region.height >= shape[0] || region.width >= shape[1]) continue;
    region.top =
        static_cast<int64_t>(random.Below(static_cast<uint64_t>(shape[0] - region.height + 1)));
    region.left =
        static_cast<int64_t>(random.Below(static_cast<uint64_t>(shape[1] - region.width + 1)));
    return region;
  }
  return std::nullopt;
}

// Draws where `size` pixels around a drawn centre begin in the image, and how many lie in it.
std::pair<int64_t, int64_t> DrawSpan(int64_t size, int64_t extent, RandomStream& random) {
  const auto centre = static_cast<int64_t>(random.Below(static_cast<uint64_t>(extent)));
  const int64_t first = centre - size / 2;
  const int64_t begin = std::max<int64_t>(first, 0);
  return {begin, std::min(first + size, extent) - begin};
}

std::optional<Region> DrawRegion(const CutoutOptions& options, const Shape& shape,
                                 RandomStream& random) {
  const auto [top, height] = DrawSpan(options.size, shape[0], random);
  const auto [left, width] = DrawSpan(options.size, shape[1], random);
  return Region{top, left, height, width};
}

// Copies every row's image and, with the probability of the options, blots out the region that is
// drawn by them: RandomErasingOptions or CutoutOptions.
template <typename Options>
class BlotRegion final : public Op {
 public:
  BlotRegion(std::string_view op, Options options, uint64_t stage)
      : op_(op), options_(std::move(options)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_RETURN_IF_ERROR(FindImage(input, options_.field, op_, kAnyPixel).status());
    return input;
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, in.dtype());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView image = in.at(row);
      auto* to = static_cast<std::byte*>(run.Allocate(out, row, image.shape));
      std::copy_n(static_cast<const std::byte*>(image.data), image.size_bytes(), to);
      if (image.shape.num_elements() == 0) continue;
      RandomStream random = run.Random(row, stage_);
      if (random.NextFloat() >= options_.probability) continue;
      const std::optional<Region> region = DrawRegion(options_, image.shape, random);
      if (!region) continue;
      const size_t pixel = static_cast<size_t>(image.shape[2]) * SizeOf(in.dtype());
      Blot(*region, image.shape[1], pixel, in.dtype(), options_.value, to);
    }
  }

 private:
  const std::string_view op_;
  const Options options_;
  const uint64_t stage_;
};

}  // namespace

std::optional<AffineParameters> DrawAffine(const AffineOptions& options, int64_t height,
                                           int64_t width, RandomStream& random) {
  if (random.NextFloat() >= options.probability) return std::nullopt;
  const auto shift = [&](float fraction, int64_t extent) {
    const double most = double{fraction} * static_cast<double>(extent);
    return std::nearbyint(-most + 2 * most * random.NextDouble());
  };
  AffineParameters parameters;
  parameters.degrees = Draw(options.degrees, random);
  parameters.translate_x = shift(options.translate[0], width);
  parameters.translate_y = shift(options.translate[1], height);
  parameters.scale = Draw(options.scale, random);
  parameters.shear_x = Draw(options.shear_x, random);
  parameters.shear_y = Draw(options.shear_y, random);
  return parameters;
}

absl::StatusOr<std::unique_ptr<Op>> MakeAffine(AffineOptions options, const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(CheckRange("affine", "degrees", options.degrees, -360, 360));
  MILLRACE_RETURN_IF_ERROR(CheckRange("affine", "scale", options.scale, 0.01f, 100));
  MILLRACE_RETURN_IF_ERROR(CheckRange("affine", "shear_x", options.shear_x, -89, 89));
  MILLRACE_RETURN_IF_ERROR(CheckRange("affine", "shear_y", options.shear_y, -89, 89));
  for (const float fraction : options.translate) {
    MILLRACE_RETURN_IF_ERROR(CheckNumber("affine", "translate", fraction, 0, 1));
  }
  MILLRACE_RETURN_IF_ERROR(CheckNumber("affine", "fill", options.fill, 0, 255));
  MILLRACE_RETURN_IF_ERROR(CheckNumber("affine", "probability", options.probability, 0, 1));
  return std::make_unique<Affine>(std::move(options), HashName(stage));
}

absl::StatusOr<std::unique_ptr<Op>> MakeRandomErasing(RandomErasingOptions options,
                                                      const std::string& stage) {
  constexpr char kOp[] = "random_erasing";
  MILLRACE_RETURN_IF_ERROR(CheckNumber(kOp, "probability", options.probability, 0, 1));
  MILLRACE_RETURN_IF_ERROR(CheckRange(kOp, "area", options.area, 0, 1));
  MILLRACE_RETURN_IF_ERROR(CheckRange(kOp, "aspect", options.aspect, 0.001f, 1000));
  MILLRACE_RETURN_IF_ERROR(CheckFinite(kOp, options.value));
  return std::make_unique<BlotRegion<RandomErasingOptions>>(kOp, std::move(options),
                                                            HashName(stage));
}

absl::StatusOr<std::unique_ptr<Op>> MakeCutout(CutoutOptions options, const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(CheckNumber("cutout", "size", options.size, 1, kMaxSize));
  MILLRACE_RETURN_IF_ERROR(CheckNumber("cutout", "probability", options.probability, 0, 1));
  MILLRACE_RETURN_IF_ERROR(CheckFinite("cutout", options.value));
  return std::make_unique<BlotRegion<CutoutOptions>>("cutout", std::move(options), HashName(stage));
}

}  // namespace millrace::augment
