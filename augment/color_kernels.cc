#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "augment/color_internal.h"
#include "augment/color_rows_internal.h"

// Ops on whole pixels and on neighbourhoods. Every product and every sum is rounded on its own: the
// tree is compiled without contraction.

namespace millrace::augment {
namespace {

uint8_t Cut(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); }

// Of values that are not negative, cut off is rounded down, and no call of floor.
float Grey(const uint8_t* pixel) {
  return static_cast<float>(static_cast<int>(0.2989f * static_cast<float>(pixel[0]) +
                                             0.587f * static_cast<float>(pixel[1]) +
                                             0.114f * static_cast<float>(pixel[2])));
}

struct Hsv {
  float h, s, v;
};

// torchvision's _rgb_to_hsv: of 0 to 1, hue in turns.
Hsv ToHsv(float r, float g, float b) {
  const float high = std::max({r, g, b});
  const float low = std::min({r, g, b});
  const float range = high - low;
  if (range == 0) return {0, 0, high};
  const float rc = (high - r) / range;
  const float gc = (high - g) / range;
  const float bc = (high - b) / range;
  const float sector = high == r ? bc - gc : high == g ? rc + 2.0f - bc : gc + 4.0f - rc;
  const float turns = sector * static_cast<float>(1.0 / 6) + 1.0f;  // in [5/6, 11/6]
  return {turns >= 1 ? turns - 1.0f : turns, range / high, high};
}

std::array<float, 3> ToRgb(const Hsv& in) {
  const auto unit = [](float value) { return std::clamp(value, 0.0f, 1.0f); };
  const float h6 = in.h * 6;
  const auto sector = static_cast<int>(h6);
  const float sxf = in.s * (h6 - static_cast<float>(sector));
  const float rest = 1.0f - in.s;
  const float q = unit((1.0f - sxf) * in.v);
  const float t = unit((sxf + rest) * in.v);
  const float p = unit(rest * in.v);
  switch (sector % 6) {
    case 0:
      return {in.v, t, p};
    case 1:
      return {q, in.v, p};
    case 2:
      return {p, in.v, t};
    case 3:
      return {p, q, in.v};
    case 4:
      return {t, p, in.v};
    default:
      return {in.v, p, q};
  }
}

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

template <typename T>
void AddScaled(const T* __restrict in, float weight, int64_t count, float* __restrict sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<float>(in[i]) * weight;
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
  for (int64_t i = 0; i < in.size(); i += 3) {
    const auto unit = [&](int64_t c) { return static_cast<float>(in.data[i + c]) / 255.0f; };
    Hsv hsv = ToHsv(unit(0), unit(1), unit(2));
    hsv.h += factor;
    if (hsv.h < 0) {
      hsv.h += 1.0f;
    } else if (hsv.h >= 1) {
      hsv.h -= 1.0f;
    }
    const std::array<float, 3> rgb = ToRgb(hsv);
    for (size_t c = 0; c < 3; ++c) {
      out[i + static_cast<int64_t>(c)] = static_cast<uint8_t>(rgb[c] * 255.999f);
    }
  }
}

void ToGrayscale(const ColorImage& in, uint8_t* out) {
  if (in.channels != 3) return static_cast<void>(std::copy_n(in.data, in.size(), out));
  for (int64_t i = 0; i < in.size(); i += 3) {
    std::fill_n(out + i, 3, static_cast<uint8_t>(Grey(in.data + i)));
  }
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
  for (int64_t y = 0; y < in.height; ++y) {
    std::fill_n(middle, row, 0.0f);
    for (int64_t k = 0; k < kernel_size; ++k) {
      const int64_t from = Reflected(y + k - radius, in.height);
      AddScaled(in.data + from * row, weights[static_cast<size_t>(k)], row, middle);
    }
    for (int64_t x = 1; x <= radius; ++x) {
      std::copy_n(middle + x * step, step, middle - x * step);
      std::copy_n(middle + row - (x + 1) * step, step, middle + row + (x - 1) * step);
    }
    std::fill_n(sums, row, 0.0f);
    for (int64_t k = 0; k < kernel_size; ++k) {
      AddScaled(padded + k * step, weights[static_cast<size_t>(k)], row, sums);
    }
    for (int64_t i = 0; i < row; ++i) *out++ = Cut(std::nearbyint(sums[i]));
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
