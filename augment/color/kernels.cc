#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "augment/color/color.h"
#include "augment/rows/color.h"
#include "augment/rows/resample.h"

// Ops on whole pixels and on neighbourhoods. Every product and every sum is rounded on its own: the
// tree is compiled without contraction.

namespace millrace::augment {
namespace {

// Position i in [-size + 1, 2 * size - 2], reflected into the image.
int64_t Reflected(int64_t i, int64_t size) {
  return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
}

std::vector<float> GaussianWeights(int64_t size, float sigma) {
  std::vector<double> weights(static_cast<size_t>(size));
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double x = static_cast<double>(i - size / 2) / double{sigma};
    sum += weights[static_cast<size_t>(i)] = std::exp(-x * x / 2);
  }
  std::vector<float> rounded;
  for (const double weight : weights) rounded.push_back(static_cast<float>(weight / sum));
  return rounded;
}

}  // namespace

float MeanGrey(const ColorImage& in) {
  int64_t sum = 0;
  if (in.channels == 3) {
    sum = SumGreys3(in.data, in.pixels());
  } else {
    for (int64_t i = 0; i < in.size(); ++i) sum += in.data[i];
  }
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(in.pixels()));
}

void AdjustSaturation(const ColorImage& in, float factor, uint8_t* out) {
  if (in.channels != 3) return static_cast<void>(std::copy_n(in.data, in.size(), out));
  const auto rest = static_cast<float>(1.0 - double{factor});
  SaturateRow3(in.data, in.pixels(), factor, rest, out);
}

void AdjustHue(const ColorImage& in, float factor, uint8_t* out) {
  if (in.channels != 3) return static_cast<void>(std::copy_n(in.data, in.size(), out));
  ShiftHueRow3(in.data, in.pixels(), factor, out);
}

void ToGrayscale(const ColorImage& in, uint8_t* out) {
  if (in.channels != 3) return static_cast<void>(std::copy_n(in.data, in.size(), out));
  GreyRow3(in.data, in.pixels(), out);
}

void AdjustSharpness(const ColorImage& in, float factor, uint8_t* out) {
  const auto rest = static_cast<float>(1.0 - double{factor});
  const int64_t row = in.width * in.channels;
  std::copy_n(in.data, in.size(), out);
  const int64_t inner = row - 2 * in.channels;
  if (inner <= 0) return;
  for (int64_t y = 1; y + 1 < in.height; ++y) {
    const int64_t first = y * row + in.channels;
    const uint8_t* const at = in.data + first;
    SharpenRow(at - row, at, at + row, inner, in.channels, rest, out + first);
  }
}

void GaussianBlur(const ColorImage& in, int64_t kernel_size, float sigma, uint8_t* out,
                  RunArena& arena) {
  const std::vector<float> weights = GaussianWeights(kernel_size, sigma);
  const int64_t radius = kernel_size / 2;
  const int64_t step = in.channels;
  const int64_t row = in.width * step;
  const auto allocate = [&](int64_t count) {
    return reinterpret_cast<float*>(arena.Allocate(static_cast<size_t>(count) * sizeof(float)));
  };
  float* const padded = allocate(row + 2 * radius * step);
  float* const middle = padded + radius * step;
  float* const sums = allocate(row);
  std::vector<const uint8_t*> rows(static_cast<size_t>(kernel_size));
  std::vector<const float*> columns;
  for (int64_t k = 0; k < kernel_size; ++k) columns.push_back(padded + k * step);
  for (int64_t y = 0; y < in.height; ++y, out += row) {
    for (int64_t k = 0; k < kernel_size; ++k) {
      rows[static_cast<size_t>(k)] = in.data + Reflected(y + k - radius, in.height) * row;
    }
    BlurRow(rows.data(), weights.data(), kernel_size, row, middle);
    for (int64_t x = 1; x <= radius; ++x) {
      std::copy_n(middle + x * step, step, middle - x * step);
      std::copy_n(middle + row - (x + 1) * step, step, middle + row + (x - 1) * step);
    }
    BlurRow(columns.data(), weights.data(), kernel_size, row, sums);
    CutToBytes(sums, row, out);
  }
}

void ApplyColor(ColorOp op, const ColorImage& in, float factor, uint8_t* out) {
  switch (op) {
    case ColorOp::kBrightness:
      return LinearRow(in.data, in.size(), factor, 0, out);
    case ColorOp::kContrast:
      return LinearRow(in.data, in.size(), factor,
                       MeanGrey(in) * static_cast<float>(1.0 - double{factor}), out);
    case ColorOp::kSaturation:
      return AdjustSaturation(in, factor, out);
    case ColorOp::kHue:
      return AdjustHue(in, factor, out);
    case ColorOp::kSharpness:
      return AdjustSharpness(in, factor, out);
    case ColorOp::kGrayscale:
      return ToGrayscale(in, out);
    case ColorOp::kInvert:
      return ApplyTable(in, InvertTable(), out);
    case ColorOp::kPosterize:
      return ApplyTable(in, PosterizeTable(static_cast<int>(factor)), out);
    case ColorOp::kSolarize:
      return ApplyTable(in, SolarizeTable(factor), out);
    case ColorOp::kEqualize:
      return Equalize(in, out);
    case ColorOp::kAutocontrast:
      return Autocontrast(in, out);
    case ColorOp::kGaussianBlur:
      break;
  }
}

}  // namespace millrace::augment
