#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/codec/decoder.h"
#include "augment/codec/encoder.h"
#include "augment/image/errors.h"
#include "augment/image_recoder.h"
#include "augment/resize/resize.h"
#include "base/philox.h"
#include "base/status.h"
#include "readers/exif.h"
#include "readers/png_chunks.h"
#include "readers/png_encoder.h"

namespace millrace::augment {
namespace {

using readers::GreyImage;
using readers::ImageHeader;
using readers::RecodedImage;

// As few digits as tell it from every other number.
std::string Digits(double value) {
  std::array<char, 32> text = {};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

constexpr int64_t kMaxJpegSide = 65500;
constexpr int64_t kMaxAreaSide = 1 << 24;  // ResizeArea's

struct Size {
  int64_t height = 0;
  int64_t width = 0;
};

// Dense pixels. Their memory is not touched before they are written: a decoder refuses a small file
// that says it is a large image.
struct Decoded {
  Decoded(Size image_size, int num_channels)
      : size(image_size),
        channels(num_channels),
        num_bytes(static_cast<size_t>(size.height * size.width * channels)),
        pixels(std::make_unique_for_overwrite<uint8_t[]>(num_bytes)) {}

  std::span<const uint8_t> bytes() const { return {pixels.get(), num_bytes}; }
  std::string text() const { return {reinterpret_cast<const char*>(pixels.get()), num_bytes}; }

  Size size;
  int channels = 0;
  size_t num_bytes = 0;
  std::unique_ptr<uint8_t[]> pixels;
};

int ChannelsOf(const ImageHeader& header) { return header.channels <= 2 ? 1 : 3; }

// Whether there is a tRNS chunk in front of the pixels of a PNG, where alone it may be.
bool HasTransparency(std::string_view png) {
  readers::PngChunks chunks(png);
  while (const auto chunk = chunks.Next()) {
    if (chunk->type == "tRNS") return true;
    if (chunk->type == "IDAT") break;
  }
  return false;
}

class Recoder final : public readers::ImageCodec {
 public:
  explicit Recoder(const ImageRecoderOptions& options) : options_(options) {}

  std::string recoding() const override {
    const auto side = [](const char* name, const std::optional<int64_t>& limit) {
      return limit.has_value() ? absl::StrCat(name, " ", *limit, " ") : "";
    };
    std::string text = absl::StrCat(side("max_resolution", options_.max_resolution),
                                    side("min_resolution", options_.min_resolution), Encodings(),
                                    options_.upright ? "upright " : "");
    if (!text.empty()) absl::StrAppend(&text, "quality ", options_.jpeg_quality);
    return text;
  }

  absl::StatusOr<std::optional<RecodedImage>> Recode(std::string_view encoded) const override {
    const int orientation = readers::ReadOrientation(encoded);
    const bool turns = options_.upright || options_.encoding == ImageEncoding::kRaw;
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, Open(encoded, turns));
    const ImageHeader& header = decoder->info();
    const Size target = TargetOf(header);
    const bool shrinks = target.height != header.height || target.width != header.width;
    Form form = FormFor(encoded, header, target);
    const bool is_turned = turns && orientation != 1;
    if (!shrinks && !is_turned && form.format == header.format && !form.stored) return std::nullopt;
    form.orientation = turns ? 1 : orientation;
    if (header.height >= kMaxAreaSide || header.width >= kMaxAreaSide) {
      return RowError(RecordErrorReason::kImage,
                      absl::StrCat("an image of ", header.height, " x ", header.width, " pixels"));
    }
    MILLRACE_ASSIGN_OR_RETURN(Decoded image, DecodeAll(*decoder));
    if (shrinks) image = Shrunk(image, target);
    return Encode(image, form);
  }

  absl::Status Check(std::string_view encoded) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, Open(encoded, false));
    return DecodeAll(*decoder).status();
  }

  absl::StatusOr<GreyImage> DecodeGrey(std::string_view encoded) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, Open(encoded, true));
    const ImageHeader& header = decoder->info();
    if (header.channels != 1) {
      return RowError(RecordErrorReason::kImage,
                      "an image with colours or alpha, where grey ones are written");
    }
    constexpr size_t kPngBitDepthAt = 24;  // in the IHDR chunk, which is the first
    if (header.format == "png" && static_cast<uint8_t>(encoded[kPngBitDepthAt]) != 8) {
      return RowError(RecordErrorReason::kImage, "a PNG of other than 8 bits to a pixel");
    }
    if (header.format == "png" && HasTransparency(encoded)) {
      return RowError(RecordErrorReason::kImage,
                      "a PNG with a transparent grey (tRNS), where plain ones are written");
    }
    MILLRACE_ASSIGN_OR_RETURN(const Decoded image, DecodeAll(*decoder));
    return GreyImage{image.text(), image.size.height, image.size.width};
  }

 private:
  Size TargetOf(const ImageHeader& header) const {
    const Size size{header.height, header.width};
    const auto& [limit, side] =
        options_.max_resolution.has_value()
            ? std::pair(options_.max_resolution, std::max(size.height, size.width))
            : std::pair(options_.min_resolution, std::min(size.height, size.width));
    if (!limit.has_value() || side <= *limit) return size;
    return {std::max<int64_t>(size.height * *limit / side, 1),
            std::max<int64_t>(size.width * *limit / side, 1)};
  }

  // A decoder of the stored image, or of the upright one.
  absl::StatusOr<std::unique_ptr<ImageDecoder>> Open(std::string_view encoded, bool upright) const {
    return OpenImage(encoded, DecodeImageOptions{.apply_exif_orientation = upright,
                                                 .max_pixels = options_.max_pixels});
  }

  struct Form {
    std::string_view format;
    bool stored = false;  // of a PNG: its pixels are not compressed
    int orientation = 1;  // of its Exif data
  };

  std::string Encodings() const {
    switch (options_.encoding) {
      case ImageEncoding::kSame:
        return "";
      case ImageEncoding::kJpeg:
        return "as jpeg ";
      case ImageEncoding::kRaw:
        return "as raw ";
      case ImageEncoding::kStored:
        return "as stored png ";
      case ImageEncoding::kSmart:
        return absl::StrCat("as jpeg above ", options_.smart_threshold, " else stored png ");
      case ImageEncoding::kProportion:
        return absl::StrCat("as jpeg by ", Digits(options_.compress_probability), " of seed ",
                            options_.seed, " else stored png ");
    }
    return "";
  }

  Form FormFor(std::string_view encoded, const ImageHeader& header, const Size& target) const {
    constexpr Form kJpeg = {"jpeg"};
    constexpr Form kStored = {"png", true};
    switch (options_.encoding) {
      case ImageEncoding::kSame:
        return {header.format};
      case ImageEncoding::kJpeg:
        return kJpeg;
      case ImageEncoding::kRaw:
        return {"raw"};
      case ImageEncoding::kStored:
        return kStored;
      case ImageEncoding::kSmart: {
        const auto bytes = static_cast<uint64_t>(target.height * target.width * ChannelsOf(header));
        return bytes > options_.smart_threshold ? kJpeg : kStored;
      }
      case ImageEncoding::kProportion: {
        RandomStream random({.seed = options_.seed, .op = HashName(encoded)});
        return random.NextDouble() < options_.compress_probability ? kJpeg : kStored;
      }
    }
    return kStored;
  }

  static absl::StatusOr<Decoded> DecodeAll(ImageDecoder& decoder) {
    const ImageHeader& header = decoder.info();
    Decoded image({header.height, header.width}, ChannelsOf(header));
    RunArena arena;
    MILLRACE_RETURN_IF_ERROR(decoder.DecodeAll(image.channels, arena, image.pixels.get()));
    return image;
  }

  static Decoded Shrunk(const Decoded& image, const Size& target) {
    Decoded shrunk(target, image.channels);
    ResizeArea(image.pixels.get(), image.size.height, image.size.width, image.channels,
               shrunk.pixels.get(), target.height, target.width);
    return shrunk;
  }

  absl::StatusOr<std::optional<RecodedImage>> Encode(const Decoded& image, const Form& form) const {
    const auto [height, width] = image.size;
    RecodedImage recoded{{}, form.format, height, width};
    if (form.format == "raw") {
      recoded.encoded = image.text();
    } else if (form.format == "png") {
      MILLRACE_ASSIGN_OR_RETURN(
          recoded.encoded,
          readers::EncodePng(image.bytes(), static_cast<uint32_t>(height),
                             static_cast<uint32_t>(width), image.channels,
                             {.stored = form.stored, .orientation = form.orientation}));
    } else if (std::max(height, width) > kMaxJpegSide) {
      return RowError(RecordErrorReason::kImage,
                      absl::StrCat("no JPEG can have ", height, " x ", width, " pixels"));
    } else {
      MILLRACE_ASSIGN_OR_RETURN(recoded.encoded,
                                EncodeJpeg(image.pixels.get(), height, width, image.channels,
                                           options_.jpeg_quality, form.orientation));
    }
    return recoded;
  }

  const ImageRecoderOptions options_;
};

absl::Status CheckSide(const char* name, const std::optional<int64_t>& limit) {
  if (!limit.has_value() || *limit >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", *limit, " is not 1 or more"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const readers::ImageCodec>> MakeImageRecoder(
    const ImageRecoderOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckSide("max_resolution", options.max_resolution));
  MILLRACE_RETURN_IF_ERROR(CheckSide("min_resolution", options.min_resolution));
  if (options.max_resolution.has_value() && options.min_resolution.has_value()) {
    return absl::InvalidArgumentError("min_resolution: not together with max_resolution");
  }
  if (options.jpeg_quality < 1 || options.jpeg_quality > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat("jpeg_quality: ", options.jpeg_quality, " is not in 1 to 100"));
  }
  if (!(options.compress_probability >= 0 && options.compress_probability <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("compress_probability: ", options.compress_probability, " is not in 0 to 1"));
  }
  constexpr int64_t kMostPixels = int64_t{1} << 28;  // ResizeArea's
  if (options.max_pixels < 1 || options.max_pixels > kMostPixels) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_pixels: ", options.max_pixels, " is not in 1 to 2^28"));
  }
  return std::make_shared<Recoder>(options);
}

}  // namespace millrace::augment
