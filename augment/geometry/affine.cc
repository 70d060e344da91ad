#include "augment/geometry/affine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "augment/rows/warp.h"

// Pillow's Image.transform by an affine matrix (src/libImaging/Geometry.c).

namespace millrace::augment {
namespace {

double Rounded(double value) { return static_cast<float>(value); }

int64_t ToFixed(double value) { return static_cast<int64_t>(std::floor(value * 65536.0 + 0.5)); }

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

// Rows that are rows of the image, shifted: translations and shears along x. `x` and `y` are the
// fixed point places of the first pixel, which row_x and row_y move from row to row.
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

struct Interval {
  int64_t begin;
  int64_t end;
};

// Of which i in [0, count) `first + i * step` is in [0, limit).
Interval Inside(int64_t first, int64_t step, int64_t limit, int64_t count) {
  if (step == 0) return {0, first >= 0 && first < limit ? count : 0};
  // Mirrored, so that places ascend.
  if (step < 0) return Inside(limit - 1 - first, -step, limit, count);
  const auto steps_to = [&](int64_t place) {
    return place <= first ? 0 : std::min((place - first - 1) / step + 1, count);
  };
  const int64_t begin = steps_to(0);
  return {begin, std::max(begin, steps_to(limit))};
}

// Where a row's pixels come from, in fixed point: the first one's place and how far the next is.
struct Walk {
  int64_t x;
  int64_t y;
  int64_t step_x;
  int64_t step_y;
};

// Pixels [begin, end) of a row. `kChannels` is in.channels, or 0: not known.
template <int64_t kChannels>
void CopyPixels(const ColorImage& in, const Walk& walk, const Interval& inside, uint8_t* out) {
  // Copies, which the bytes that are written cannot lie over.
  const uint8_t* const data = in.data;
  const int64_t channels = kChannels == 0 ? in.channels : kChannels;
  const int64_t width = in.width;
  const int64_t step_x = walk.step_x;
  const int64_t step_y = walk.step_y;
  int64_t x = walk.x + inside.begin * step_x;
  int64_t y = walk.y + inside.begin * step_y;
  for (int64_t i = inside.begin; i < inside.end; ++i, x += step_x, y += step_y) {
    const int64_t pixel = (y >> 16) * width + (x >> 16);
    std::memcpy(out + i * channels, data + pixel * channels, static_cast<size_t>(channels));
  }
}

// A pixel and the byte behind it may be read unless it is the image's last one, and written unless
// it is the last one of its row.
void CopyPixels3(const ColorImage& in, const Walk& walk, const Interval& inside, uint8_t* out) {
  const int64_t last = inside.end - 1;
  const int64_t first_x = walk.x + inside.begin * walk.step_x;
  const int64_t first_y = walk.y + inside.begin * walk.step_y;
  const int64_t last_y = walk.y + last * walk.step_y;
  if (std::max(first_y, last_y) >> 16 >= in.height - 1 || last == inside.begin ||
      std::max(in.height, in.width) > kMostWalked) {
    return CopyPixels<3>(in, walk, inside, out);
  }
  // Steps between places inside are as small as these.
  const PixelWalk from = {static_cast<int32_t>(first_x), static_cast<int32_t>(first_y),
                          static_cast<int32_t>(walk.step_x), static_cast<int32_t>(walk.step_y)};
  CopyPlaces3(in.data, in.width * 3, from, last - inside.begin, out + inside.begin * 3);
  CopyPixels<3>(in, walk, {last, inside.end}, out);
}

void CopyRow(const ColorImage& in, const Walk& walk, const Interval& inside, uint8_t* out) {
  if (in.channels == 3) return CopyPixels3(in, walk, inside, out);
  if (in.channels == 1) return CopyPixels<1>(in, walk, inside, out);
  CopyPixels<0>(in, walk, inside, out);
}

}  // namespace

void WarpNearest(const ColorImage& in, const AffineMatrix& m, uint8_t fill, uint8_t* out) {
  Walk walk = {ToFixed(m[2] + m[0] * 0.5 + m[1] * 0.5), ToFixed(m[5] + m[3] * 0.5 + m[4] * 0.5),
               ToFixed(m[0]), ToFixed(m[3])};
  const int64_t row_x = ToFixed(m[1]);
  const int64_t row_y = ToFixed(m[4]);
  if (walk.step_x == kFixedOne && walk.step_y == 0) {
    return CopyShifted(in, walk.x, walk.y, row_x, row_y, fill, out);
  }
  const int64_t channels = in.channels;
  for (int64_t row = 0; row < in.height; ++row, walk.x += row_x, walk.y += row_y) {
    const Interval across = Inside(walk.x, walk.step_x, in.width << 16, in.width);
    const Interval down = Inside(walk.y, walk.step_y, in.height << 16, in.width);
    const int64_t begin = std::max(across.begin, down.begin);
    const Interval inside = {begin, std::max(begin, std::min(across.end, down.end))};
    std::fill_n(out, inside.begin * channels, fill);
    if (inside.end > inside.begin) CopyRow(in, walk, inside, out);
    std::fill_n(out + inside.end * channels, (in.width - inside.end) * channels, fill);
    out += in.width * channels;
  }
}

namespace {

// Places move one way along a row, so those inside the image follow each other.
Interval Inside(const PixelLine& line, const ColorImage& in) {
  const auto is_inside = [&](int64_t i) {
    const double x = static_cast<double>(i) + 0.5;
    const double from_x = line.step_x * x + line.along_x + line.shift_x;
    const double from_y = line.step_y * x + line.along_y + line.shift_y;
    return from_x >= 0 && from_x < static_cast<double>(in.width) && from_y >= 0 &&
           from_y < static_cast<double>(in.height);
  };
  Interval inside = {0, in.width};
  while (inside.begin < inside.end && !is_inside(inside.begin)) ++inside.begin;
  while (inside.begin < inside.end && !is_inside(inside.end - 1)) --inside.end;
  return inside;
}

}  // namespace

void WarpBilinear(const ColorImage& in, const AffineMatrix& m, uint8_t fill, uint8_t* out) {
  const int64_t channels = in.channels;
  for (int64_t i = 0; i < in.height; ++i, out += in.width * channels) {
    const double y = static_cast<double>(i) + 0.5;
    const PixelLine line = {m[0], m[1] * y, m[2], m[3], m[4] * y, m[5]};
    const Interval inside = Inside(line, in);
    std::fill_n(out, inside.begin * channels, fill);
    BlendPlaces(in, line, inside.begin, inside.end, out);
    std::fill_n(out + inside.end * channels, (in.width - inside.end) * channels, fill);
  }
}

}  // namespace millrace::augment
