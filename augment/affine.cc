#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "augment/affine_internal.h"

// Pillow's Image.transform by an affine matrix (src/libImaging/Geometry.c).

namespace millrace::augment {
namespace {

double Rounded(double value) { return static_cast<float>(value); }

int64_t ToFixed(double value) { return static_cast<int64_t>(std::floor(value * 65536.0 + 0.5)); }

// The rows above and below a point, and how far it is between them; the same of columns.
struct Between {
  int64_t low;
  int64_t high;
  double weight;
};

Between Neighbours(double at, int64_t size) {
  const double shifted = at - 0.5;
  const auto cut = static_cast<int64_t>(shifted);  // rounded down, without a call of floor
  const int64_t index = shifted < static_cast<double>(cut) ? cut - 1 : cut;
  return {std::clamp<int64_t>(index, 0, size - 1), std::clamp<int64_t>(index + 1, 0, size - 1),
          shifted - static_cast<double>(index)};
}

void BlendPixel(const ColorImage& in, double x, double y, uint8_t* out) {
  const Between column = Neighbours(x, in.width);
  const Between line = Neighbours(y, in.height);
  const auto value = [&](int64_t row, int64_t at, int64_t c) {
    return static_cast<double>(in.data[(row * in.width + at) * in.channels + c]);
  };
  for (int64_t c = 0; c < in.channels; ++c) {
    const auto along = [&](int64_t row) {
      const double left = value(row, column.low, c);
      return left + (value(row, column.high, c) - left) * column.weight;
    };
    const double top = along(line.low);
    out[c] = static_cast<uint8_t>(top + (along(line.high) - top) * line.weight);
  }
}

}  // namespace

AffineMatrix InverseAffine(const AffineParameters& parameters, int64_t height, int64_t width) {
  const auto radians = [](double degrees) { return degrees * (std::numbers::pi / 180.0); };
  const double turn = radians(parameters.degrees);
  const double sx = radians(parameters.shear_x);
  const double sy = radians(parameters.shear_y);
  const double cos_sy = Rounded(std::cos(sy));
  const double tan_sx = Rounded(std::tan(sx));
  const double cosine = Rounded(std::cos(turn - sy));
  const double sine = Rounded(std::sin(turn - sy));
  const double a = cosine / cos_sy;
  const double b = -cosine * tan_sx / cos_sy - Rounded(std::sin(turn));
  const double c = sine / cos_sy;
  const double d = -sine * tan_sx / cos_sy + Rounded(std::cos(turn));
  const double scale = parameters.scale;
  AffineMatrix m = {d / scale, -b / scale, 0, -c / scale, a / scale, 0};
  const double cx = static_cast<double>(width) * 0.5;
  const double cy = static_cast<double>(height) * 0.5;
  m[2] = m[0] * (-cx - parameters.translate_x) + m[1] * (-cy - parameters.translate_y) + cx;
  m[5] = m[3] * (-cx - parameters.translate_x) + m[4] * (-cy - parameters.translate_y) + cy;
  return m;
}

namespace {

constexpr int64_t kFixedOne = 1 << 16;

// Rows that are rows of the image, shifted: translations and shears along x. `x` and `y` are the fixed
// point places of the first pixel, which row_x and row_y move from row to row.
void CopyShifted(const ColorImage& in, int64_t x, int64_t y, int64_t row_x, int64_t row_y,
                 uint8_t fill, uint8_t* out) {
  const auto bytes = [&](int64_t pixels) { return static_cast<size_t>(pixels * in.channels); };
  for (int64_t row = 0; row < in.height; ++row, x += row_x, y += row_y) {
    const int64_t shift = x >> 16;
    const int64_t from_y = y >> 16;
    const bool inside = from_y >= 0 && from_y < in.height;
    const int64_t begin = inside ? std::clamp<int64_t>(-shift, 0, in.width) : 0;
    const int64_t end = inside ? std::clamp<int64_t>(in.width - shift, begin, in.width) : 0;
    std::memset(out, fill, bytes(begin));
    if (end > begin) {
      std::memcpy(out + bytes(begin), in.data + bytes(from_y * in.width + begin + shift),
                  bytes(end - begin));
    }
    std::memset(out + bytes(end), fill, bytes(in.width - end));
    out += bytes(in.width);
  }
}

// `kChannels` is in.channels, or 0: not known. A copy of so many bytes is no call of memcpy.
template <int64_t kChannels>
void WarpNearestOf(const ColorImage& in, const AffineMatrix& m, uint8_t fill, uint8_t* out) {
  const int64_t channels = kChannels == 0 ? in.channels : kChannels;
  int64_t row_x = ToFixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  int64_t row_y = ToFixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  const int64_t step_x = ToFixed(m[0]);
  const int64_t step_y = ToFixed(m[3]);
  if (step_x == kFixedOne && step_y == 0) {
    return CopyShifted(in, row_x, row_y, ToFixed(m[1]), ToFixed(m[4]), fill, out);
  }
  const auto width = static_cast<uint64_t>(in.width);
  const auto height = static_cast<uint64_t>(in.height);
  for (int64_t y = 0; y < in.height; ++y) {
    int64_t fixed_x = row_x;
    int64_t fixed_y = row_y;
    for (int64_t x = 0; x < in.width; ++x, out += channels) {
      const int64_t from_x = fixed_x >> 16;
      const int64_t from_y = fixed_y >> 16;
      // Negative places are large as unsigned numbers.
      if (static_cast<uint64_t>(from_x) < width && static_cast<uint64_t>(from_y) < height) {
        std::memcpy(out, in.data + (from_y * in.width + from_x) * channels,
                    static_cast<size_t>(channels));
      } else {
        std::memset(out, fill, static_cast<size_t>(channels));
      }
      fixed_x += step_x;
      fixed_y += step_y;
    }
    row_x += ToFixed(m[1]);
    row_y += ToFixed(m[4]);
  }
}

}  // namespace

void WarpNearest(const ColorImage& in, const AffineMatrix& m, uint8_t fill, uint8_t* out) {
  if (in.channels == 3) return WarpNearestOf<3>(in, m, fill, out);
  if (in.channels == 1) return WarpNearestOf<1>(in, m, fill, out);
  WarpNearestOf<0>(in, m, fill, out);
}

void WarpBilinear(const ColorImage& in, const AffineMatrix& m, uint8_t fill, uint8_t* out) {
  for (int64_t i = 0; i < in.height; ++i) {
    const double y = static_cast<double>(i) + 0.5;
    for (int64_t j = 0; j < in.width; ++j, out += in.channels) {
      const double x = static_cast<double>(j) + 0.5;
      const double from_x = m[0] * x + m[1] * y + m[2];
      const double from_y = m[3] * x + m[4] * y + m[5];
      if (from_x >= 0 && from_x < static_cast<double>(in.width) && from_y >= 0 &&
          from_y < static_cast<double>(in.height)) {
        BlendPixel(in, from_x, from_y, out);
      } else {
        std::fill_n(out, in.channels, fill);
      }
    }
  }
}

}  // namespace millrace::augment
