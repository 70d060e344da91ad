#include "augment/batch_mixing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "augment/image/errors.h"
#include "augment/rows/kernels.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

template <typename T>
void Blend(std::byte* own, const std::byte* other, int64_t size, const Mixture& mixture) {
  MixRow(reinterpret_cast<const T*>(other), mixture.others, mixture.kept, size,
         reinterpret_cast<T*>(own));
}

void BlendAs(DType dtype, std::byte* own, const std::byte* other, int64_t size,
             const Mixture& mixture) {
  switch (dtype) {
    case DType::kU8:
      return Blend<uint8_t>(own, other, size, mixture);
    case DType::kF16:
      return Blend<Half>(own, other, size, mixture);
    case DType::kBF16:
      return Blend<BFloat>(own, other, size, mixture);
    default:
      return Blend<float>(own, other, size, mixture);
  }
}

// An image as planes of rows of cells: [1, height, width] cells of all channels, or, channels
// first, [channels, height, width] cells of one.
struct Grid {
  int64_t planes, height, width, cell_bytes;
};

Grid GridOf(const BatchMixingOptions& options, const Shape& image, DType dtype) {
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  if (options.channels_first) return {image[0], image[1], image[2], size};
  return {1, image[0], image[1], image[2] * size};
}

void CopyBox(const Grid& grid, const Mixture& box, const std::byte* from, std::byte* to) {
  const auto bytes = static_cast<size_t>((box.right - box.left) * grid.cell_bytes);
  for (int64_t plane = 0; plane < grid.planes; ++plane) {
    for (int64_t y = box.top; y < box.bottom; ++y) {
      const int64_t at = ((plane * grid.height + y) * grid.width + box.left) * grid.cell_bytes;
      std::memcpy(to + at, from + at, bytes);
    }
  }
}

// Gives every row its other, as it was: backwards, so that only the last one needs a copy.
template <typename Mix>
void Roll(std::span<std::byte* const> rows, size_t row_bytes, std::byte* spare, const Mix& mix) {
  if (rows.size() < 2) return;
  std::memcpy(spare, rows.back(), row_bytes);
  for (size_t i = rows.size() - 1; i > 0; --i) mix(rows[i], rows[i - 1]);
  mix(rows[0], spare);
}

Mixture DrawBlend(double alpha, RandomStream& random) {
  Mixture mixture;
  mixture.kept = static_cast<float>(DrawSymmetricBeta(alpha, random));
  mixture.others = static_cast<float>(1.0 - double{mixture.kept});
  return mixture;
}

Mixture DrawBox(const BatchMixingOptions& options, const Shape& image, RandomStream& random) {
  const Grid grid = GridOf(options, image, DType::kU8);
  const double lambda = static_cast<float>(DrawSymmetricBeta(options.cutmix_alpha, random));
  if (grid.width == 0 || grid.height == 0) return {.cuts = true};
  const auto x = static_cast<int64_t>(random.Below(static_cast<uint64_t>(grid.width)));
  const auto y = static_cast<int64_t>(random.Below(static_cast<uint64_t>(grid.height)));
  return BoxAround(x, y, lambda, grid.height, grid.width);
}

}  // namespace

std::string_view NameOf(BatchMixingKind kind) {
  switch (kind) {
    case BatchMixingKind::kMixup:
      return "mixup";
    case BatchMixingKind::kCutmix:
      return "cutmix";
    case BatchMixingKind::kEither:
      return "mixup_or_cutmix";
  }
  return "";
}

absl::Status CheckMixedFields(const BatchMixingOptions& options, const Schema& schema) {
  const std::string_view op = NameOf(options.kind);
  MILLRACE_ASSIGN_OR_RETURN(const Field image, FindField(schema, options.field, op));
  constexpr DType kPixels[] = {DType::kU8, DType::kF16, DType::kBF16, DType::kF32};
  const bool is_image = options.kind == BatchMixingKind::kMixup || image.shape.rank() == 3;
  if (std::ranges::find(kPixels, image.dtype) == std::end(kPixels) || !image.shape.IsKnown() ||
      !is_image) {
    return FieldError(
        image, op,
        options.kind == BatchMixingKind::kMixup
            ? "uint8, float16, bfloat16 or float32 of one shape for all samples"
            : "uint8, float16, bfloat16 or float32 images of one shape for all samples");
  }
  MILLRACE_ASSIGN_OR_RETURN(const Field label, FindField(schema, options.label, op));
  if (label.dtype == DType::kF32 && label.shape.rank() == 1 && label.shape.IsKnown()) {
    return absl::OkStatus();
  }
  return FieldError(label, op, "float32 [classes]; num_classes makes it of a number, or one_hot");
}

double DrawSymmetricBeta(double alpha, RandomStream& random) {
  const double u = random.NextDouble();
  const double angle = 2 * std::numbers::pi * random.NextDouble();
  if (u == 0) return 0.5;  // w is 0
  const double w = std::expm1(-std::log1p(-u) / alpha);
  const double c = std::cos(angle);
  return 0.5 + 0.5 * c / std::sqrt(1 / w + c * c);
}

Mixture BoxAround(int64_t x, int64_t y, double lambda, int64_t height, int64_t width) {
  const double half = 0.5 * std::sqrt(1.0 - lambda);
  const auto half_width = static_cast<int64_t>(half * static_cast<double>(width));
  const auto half_height = static_cast<int64_t>(half * static_cast<double>(height));
  Mixture box;
  box.cuts = true;
  box.left = std::max<int64_t>(x - half_width, 0);
  box.top = std::max<int64_t>(y - half_height, 0);
  box.right = std::min(x + half_width, width);
  box.bottom = std::min(y + half_height, height);
  const auto area = static_cast<double>((box.right - box.left) * (box.bottom - box.top));
  const double kept = 1.0 - area / static_cast<double>(width * height);
  box.kept = static_cast<float>(kept);
  box.others = static_cast<float>(1.0 - kept);
  return box;
}

std::optional<Mixture> DrawMixture(const BatchMixingOptions& options, const Shape& image,
                                   RandomStream& random) {
  if (random.NextFloat() >= options.probability) return std::nullopt;
  bool cuts = options.kind == BatchMixingKind::kCutmix;
  if (options.kind == BatchMixingKind::kEither)
    cuts = random.NextFloat() < options.switch_probability;
  return cuts ? DrawBox(options, image, random) : DrawBlend(options.mixup_alpha, random);
}

void MixImages(const BatchMixingOptions& options, const Mixture& mixture,
               std::span<std::byte* const> rows, DType dtype, const Shape& image,
               std::byte* spare) {
  const int64_t size = image.num_elements();
  const size_t bytes = static_cast<size_t>(size) * SizeOf(dtype);
  if (mixture.cuts) {
    const Grid grid = GridOf(options, image, dtype);
    return Roll(rows, bytes, spare, [&](std::byte* own, const std::byte* other) {
      CopyBox(grid, mixture, other, own);
    });
  }
  Roll(rows, bytes, spare,
       [&](std::byte* own, const std::byte* other) { BlendAs(dtype, own, other, size, mixture); });
}

void MixLabels(const Mixture& mixture, std::span<std::byte* const> rows, int64_t classes,
               std::byte* spare) {
  Roll(rows, static_cast<size_t>(classes) * sizeof(float), spare,
       [&](std::byte* own, const std::byte* other) { Blend<float>(own, other, classes, mixture); });
}

}  // namespace millrace::augment
