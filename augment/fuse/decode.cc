#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/fuse/decode_crop.h"
#include "augment/image/errors.h"
#include "augment/image/options.h"
#include "augment/image_ops.h"
#include "base/status.h"
#include "readers/exif.h"

namespace millrace::augment {

absl::StatusOr<Schema> ResolveDecode(const Schema& input, const DecodeImageOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const Field field, FindField(input, options.field, "decode_image"));
  if (field.dtype != DType::kBytes) return FieldError(field, "decode_image", "bytes");
  Schema output = input;
  output.Remove(options.field);
  output.Set(
      {options.output, DType::kU8, Shape{Shape::kUnknown, Shape::kUnknown, options.channels}});
  return output;
}

bool OpenForTracks(std::string_view encoded, const DecodeImageOptions& options,
                   jpeg::RegionDecoder& decoder) {
  if (!MayUseRegionDecoder(options) || !decoder.Open(encoded)) return false;
  if (int64_t{decoder.frame().height} * decoder.frame().width > options.max_pixels) return false;
  return !options.apply_exif_orientation || readers::ReadOrientation(encoded) == 1;
}

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenForDecoding(std::string_view encoded,
                                                              const DecodeImageOptions& options,
                                                              bool refused) {
  if (!refused) return OpenImage(encoded, options);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ImageDecoder> decoder, OpenLibjpeg(encoded, options));
  MILLRACE_RETURN_IF_ERROR(decoder->CheckHeader());
  return decoder;
}

namespace {

// Of an op that does not crop.
absl::Status DecodesAlone(const DecodeImageOptions& options) {
  if (!options.dct_downscale) return absl::OkStatus();
  return absl::InvalidArgumentError(kNeedsResize);
}

class DecodeImage final : public Op {
 public:
  explicit DecodeImage(DecodeImageOptions options, std::optional<PixelHead> crop = std::nullopt)
      : options_(std::move(options)), crop_(std::move(crop)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveDecode(input, options_);
  }

  void Apply(Run& run) const override {
    const Column encoded = run.Take(options_.field);
    Column& images = run.Add(options_.output, DType::kU8);
    const auto decode = [&](int64_t row, bool refused) {
      absl::Status status = Decode(encoded.bytes(row), refused, row, images, run);
      if (!status.ok()) run.Fail(row, Annotate(status, options_.field));
    };
    const auto pool = std::make_unique<jpeg::TrackPool>([&](int64_t row, bool ok) {
      if (!ok) decode(row, true);
    });
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      jpeg::RegionDecoder& decoder = pool->idle();
      if (!OpenForTracks(encoded.bytes(row), options_, decoder)) {
        decode(row, false);
        continue;
      }
      const Region all{0, 0, decoder.frame().height, decoder.frame().width};
      const Shape shape{all.height, all.width, options_.channels};
      auto* pixels = static_cast<uint8_t*>(run.Allocate(images, row, shape));
      pool->Submit(row, all, options_.channels, pixels, all.width * options_.channels);
    }
    pool->Flush();
  }

  int64_t preferred_rows() const override { return kPreferredDecodeRows; }

 private:
  absl::Status Decode(std::string_view encoded, bool refused, int64_t row, Column& images,
                      Run& run) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, OpenForDecoding(encoded, options_, refused));
    const Shape shape{decoder->info().height, decoder->info().width, options_.channels};
    auto* pixels = static_cast<uint8_t*>(run.Allocate(images, row, shape));
    const ArenaScratch scratch(run.arena());
    absl::Status status = decoder->DecodeAll(options_.channels, run.arena(), pixels);
    if (status.ok() || !crop_.has_value() || options_.verify_full) return status;
    return DecodeCropOf(encoded, shape, row, pixels, run);
  }

  // Decodes the region that the crop needs, of an image that cannot be decoded as a whole. Nothing
  // else is looked at. The pixels around the region are cleared only when it has been decoded: a
  // file of a few bytes may say it has pixels by the million.
  absl::Status DecodeCropOf(std::string_view encoded, const Shape& shape, int64_t row,
                            uint8_t* pixels, Run& run) const {
    const absl::StatusOr<Region> window = crop_->Window(shape, row, run);
    if (!window.ok()) return absl::OkStatus();  // the crop says so itself
    const Region region = Visible(*window, shape);
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, OpenImage(encoded, options_));
    MILLRACE_ASSIGN_OR_RETURN(const Pixels crop,
                              decoder->DecodeRegion(region, options_.channels, run.arena()));
    const int64_t stride = shape[1] * options_.channels;
    std::memset(pixels, 0, static_cast<size_t>(shape[0] * stride));
    uint8_t* out = pixels + region.top * stride + region.left * options_.channels;
    for (int64_t y = 0; y < region.height; ++y) {
      std::memcpy(out + y * stride, crop.data + y * crop.stride,
                  static_cast<size_t>(region.width * options_.channels));
    }
    return absl::OkStatus();
  }

  const DecodeImageOptions options_;
  const std::optional<PixelHead> crop_;  // behind it
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImage(DecodeImageOptions options) {
  MILLRACE_RETURN_IF_ERROR(Validate(options));
  MILLRACE_RETURN_IF_ERROR(DecodesAlone(options));
  return std::make_unique<DecodeImage>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImageToCrop(DecodeImageOptions decode,
                                                          CropOptions crop,
                                                          const std::string& crop_stage) {
  MILLRACE_RETURN_IF_ERROR(ValidatePair(decode, crop));
  MILLRACE_RETURN_IF_ERROR(DecodesAlone(decode));
  MILLRACE_ASSIGN_OR_RETURN(PixelHead head,
                            PixelHead::Make(ToFirst(std::move(crop)), std::nullopt, crop_stage));
  return std::make_unique<DecodeImage>(std::move(decode), std::move(head));
}

}  // namespace millrace::augment
