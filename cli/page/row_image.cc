#include "cli/page/row_image.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "readers/png_encoder.h"

namespace millrace::cli {
namespace {

using Layout = pipeline::FieldHistory::Layout;
using Affine = pipeline::FieldHistory::Affine;

constexpr int64_t kLeastGrey = 8;  // pixels of a side; smaller is a matrix

bool IsChannels(int64_t extent) { return extent == 1 || extent == 3 || extent == 4; }

// The extents of an image and the order of its values.
struct Extents {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 1;
  bool channels_first = false;

  int64_t IndexOf(int64_t y, int64_t x, int64_t channel) const {
    const int64_t pixel = y * width + x;
    return channels_first ? channel * height * width + pixel : pixel * channels + channel;
  }
};

Extents ExtentsOf(const ImageField& field, const Shape& shape) {
  if (shape.rank() == 2) return {shape[0], shape[1], 1, false};
  if (field.channels_first) return {shape[1], shape[2], shape[0], true};
  return {shape[0], shape[1], shape[2], false};
}

// From values to pixels: (x - offset) / scale, to the nearest of 0 to 255.
struct Mapping {
  std::vector<Affine> values;  // one per channel, or one for all
  std::string text;

  uint8_t PixelOf(double x, int64_t channel) const {
    const Affine& affine = values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
    const double pixel = (x - affine.offset) / affine.scale;
    return pixel > 0 ? static_cast<uint8_t>(std::nearbyint(std::min(pixel, 255.0))) : 0;
  }
};

// The smallest finite number becomes black, the largest white.
Mapping Stretch(const RowValue& value) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (int64_t i = 0; i < value.shape().num_elements(); ++i) {
    const double x = value.at(i);
    if (!std::isfinite(x)) continue;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  if (low > high) return {{Affine{}}, "no finite value"};
  // Divided first, since the difference of the largest numbers would overflow.
  const double scale = high > low ? high / 255 - low / 255 : 1;
  return {{{scale, low}}, absl::StrFormat("stretched: black is %.6g, white %.6g", low, high)};
}

bool CanUndo(const std::vector<Affine>& values, int64_t channels) {
  const bool fits = values.size() == 1 || static_cast<int64_t>(values.size()) >= channels;
  return fits && std::ranges::all_of(values, [](const Affine& affine) {
           return std::isfinite(affine.offset) && std::isfinite(affine.scale) && affine.scale != 0;
         });
}

// `channels` is the number of channels shown.
Mapping MappingOf(const ImageField& field, const RowValue& value, int64_t channels) {
  if (value.dtype() == DType::kU8) return {{Affine{}}, ""};
  const auto& values = field.history.values;
  if (!values || !CanUndo(*values, channels)) return Stretch(value);
  const bool as_decoded =
      std::ranges::all_of(*values, [](const Affine& a) { return a.scale == 1 && a.offset == 0; });
  return {*values, as_decoded ? "" : "mapped back to 0 to 255 as the plan's stages say"};
}

// The pixels of a row's value, reduced to the size of the page.
class Pixels {
 public:
  Pixels(const RowValue& value, const Extents& extents, const Mapping& mapping)
      : value_(value),
        extents_(extents),
        mapping_(mapping),
        by_(DivideUp(std::max(extents.height, extents.width), kMaxShownSide)) {}

  int64_t reduced_by() const { return by_; }
  int64_t height() const { return DivideUp(extents_.height, by_); }
  int64_t width() const { return DivideUp(extents_.width, by_); }

  absl::StatusOr<std::string> Encode(int64_t first, int64_t channels) const {
    std::vector<uint8_t> bytes;
    bytes.reserve(static_cast<size_t>(height() * width() * channels));
    for (int64_t y = 0; y < height(); ++y) {
      for (int64_t x = 0; x < width(); ++x) {
        for (int64_t c = first; c < first + channels; ++c) bytes.push_back(MeanAt(y, x, c));
      }
    }
    return readers::EncodePng(bytes, static_cast<uint32_t>(height()),
                              static_cast<uint32_t>(width()), static_cast<int>(channels));
  }

 private:
  static int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

  // The mean of a square of pixels, as far as it lies in the image.
  uint8_t MeanAt(int64_t shown_y, int64_t shown_x, int64_t channel) const {
    const int64_t bottom = std::min((shown_y + 1) * by_, extents_.height);
    const int64_t right = std::min((shown_x + 1) * by_, extents_.width);
    int64_t sum = 0;
    int64_t count = 0;
    for (int64_t y = shown_y * by_; y < bottom; ++y) {
      for (int64_t x = shown_x * by_; x < right; ++x, ++count) {
        sum += mapping_.PixelOf(value_.at(extents_.IndexOf(y, x, channel)), channel);
      }
    }
    return static_cast<uint8_t>((sum + count / 2) / count);
  }

  const RowValue& value_;
  const Extents& extents_;
  const Mapping& mapping_;
  const int64_t by_;
};

}  // namespace

std::optional<ImageField> FindImageField(const Field& field, pipeline::FieldHistory history) {
  const Shape& shape = field.shape;
  ImageField image{.name = field.name, .history = std::move(history)};
  if (field.dtype == DType::kBytes) return std::nullopt;
  if (shape.rank() == 2) {
    const bool grey = field.dtype == DType::kU8 && shape[0] >= kLeastGrey && shape[1] >= kLeastGrey;
    return grey ? std::optional(std::move(image)) : std::nullopt;
  }
  if (shape.rank() != 3) return std::nullopt;
  image.layout_guessed = image.history.layout == Layout::kUnknown;
  image.channels_first =
      image.layout_guessed ? !IsChannels(shape[2]) : image.history.layout == Layout::kChannelsFirst;
  if (!IsChannels(shape[image.channels_first ? 0 : 2])) return std::nullopt;
  return image;
}

absl::StatusOr<RowImage> MakeRowImage(const ImageField& field, const RowValue& value) {
  const Extents extents = ExtentsOf(field, value.shape());
  if (value.shape().num_elements() == 0 || !IsChannels(extents.channels)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, ": no image of shape ", value.shape().ToString()));
  }
  const int64_t own = field.history.channels;  // 0: not known
  const bool padded = own == 1 || own == 3;
  const int64_t shown = std::min(extents.channels, padded ? own : extents.channels);
  const Mapping mapping = MappingOf(field, value, shown);
  const Pixels pixels(value, extents, mapping);
  RowImage image{.pngs = {},
                 .height = pixels.height(),
                 .width = pixels.width(),
                 .full_height = extents.height,
                 .full_width = extents.width,
                 .reduced_by = pixels.reduced_by(),
                 .values = mapping.text};
  MILLRACE_ASSIGN_OR_RETURN(std::string png, pixels.Encode(0, shown == 1 ? 1 : 3));
  image.pngs.push_back(std::move(png));
  if (shown == 4) {
    MILLRACE_ASSIGN_OR_RETURN(std::string fourth, pixels.Encode(3, 1));
    image.pngs.push_back(std::move(fourth));
  }
  return image;
}

}  // namespace millrace::cli
