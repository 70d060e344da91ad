#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "augment/errors_internal.h"
#include "augment/image_decoder_internal.h"
#include "augment/image_ops.h"
#include "augment/jpeg/lane_pool_internal.h"
#include "augment/options_internal.h"
#include "augment/region_internal.h"
#include "augment/resize_internal.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

absl::Status Validate(const DecodeImageOptions& options) {
  if (options.field.empty() || options.output.empty()) {
    return absl::InvalidArgumentError("decode_image: field and output must be named");
  }
  if (options.channels != 1 && options.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode_image: channels is ", options.channels, "; expected 1 or 3"));
  }
  if (options.max_pixels <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode_image: max_pixels is ", options.max_pixels, "; expected > 0"));
  }
  return absl::OkStatus();
}

// The schema with the encoded field replaced by an image of `height` x `width`.
absl::StatusOr<Schema> ResolveDecode(const Schema& input, const DecodeImageOptions& options,
                                     int64_t height, int64_t width) {
  MILLRACE_ASSIGN_OR_RETURN(const Field field, FindField(input, options.field, "decode_image"));
  if (field.dtype != DType::kBytes) return FieldError(field, "decode_image", "bytes");
  Schema output = input;
  output.Remove(options.field);
  output.Set({options.output, DType::kU8, Shape{height, width, options.channels}});
  return output;
}

// Opens `encoded` in a decoder that may go to a LanePool. False: it is to be decoded by OpenImage.
bool OpenForLanes(std::string_view encoded, int64_t max_pixels, jpeg::RegionDecoder& decoder) {
  if (!decoder.Open(encoded)) return false;
  return int64_t{decoder.frame().height} * decoder.frame().width <= max_pixels;
}

// Opens `encoded` for one decoding: by libjpeg-turbo at once where a LanePool has `refused` it, or
// the same damage would be met twice before its turn.
absl::StatusOr<std::unique_ptr<ImageDecoder>> Open(std::string_view encoded, int64_t max_pixels,
                                                   bool refused) {
  if (!refused) return OpenImage(encoded, max_pixels);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ImageDecoder> decoder, OpenLibjpeg(encoded));
  MILLRACE_RETURN_IF_ERROR(decoder->CheckHeader());
  return decoder;
}

class DecodeImage final : public Op {
 public:
  explicit DecodeImage(DecodeImageOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveDecode(input, options_, Shape::kUnknown, Shape::kUnknown);
  }

  void Apply(Run& run) const override {
    const Column encoded = run.Take(options_.field);
    Column& images = run.Add(options_.output, DType::kU8);
    const auto decode = [&](int64_t row, bool refused) {
      absl::Status status = Decode(encoded.bytes(row), refused, row, images, run);
      if (!status.ok()) run.Fail(row, Annotate(status, options_.field));
    };
    const auto pool = std::make_unique<jpeg::LanePool>([&](int64_t row, bool ok) {
      if (!ok) decode(row, true);
    });
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      jpeg::RegionDecoder& decoder = pool->idle();
      if (!OpenForLanes(encoded.bytes(row), options_.max_pixels, decoder)) {
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

 private:
  absl::Status Decode(std::string_view encoded, bool refused, int64_t row, Column& images,
                      Run& run) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, Open(encoded, options_.max_pixels, refused));
    const Shape shape{decoder->info().height, decoder->info().width, options_.channels};
    auto* pixels = static_cast<uint8_t*>(run.Allocate(images, row, shape));
    return decoder->DecodeAll(options_.channels, run.arena(), pixels);
  }

  const DecodeImageOptions options_;
};

// decode_image and random_resized_crop in one: only the crop's region is decoded.
class DecodeRandomResizedCrop final : public Op {
 public:
  DecodeRandomResizedCrop(DecodeImageOptions decode, RandomResizedCropOptions crop, uint64_t stage)
      : decode_(std::move(decode)), crop_(std::move(crop)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveDecode(input, decode_, crop_.height, crop_.width);
  }

  void Apply(Run& run) const override {
    const Column encoded = run.Take(decode_.field);
    Column& images = run.Add(decode_.output, DType::kU8);
    std::vector<Pending> pending(static_cast<size_t>(run.num_rows()));
    const auto decode = [&](int64_t row, bool refused) {
      absl::Status status = Decode(encoded.bytes(row), refused, row, images, run);
      if (!status.ok()) run.Fail(row, Annotate(status, decode_.field));
    };
    const auto pool = std::make_unique<jpeg::LanePool>([&](int64_t row, bool ok) {
      const Pending& image = pending[static_cast<size_t>(row)];
      if (!ok) return decode(row, true);
      Resize(image.pixels, image.region, row, images, run);
    });
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      jpeg::RegionDecoder& decoder = pool->idle();
      if (!OpenForLanes(encoded.bytes(row), decode_.max_pixels, decoder)) {
        decode(row, false);
        continue;
      }
      const Region region = Draw(decoder.frame().height, decoder.frame().width, row, run);
      const int64_t stride = region.width * decode_.channels;
      auto* out = reinterpret_cast<uint8_t*>(
          run.arena().Allocate(static_cast<size_t>(region.height * stride + kPixelsSlack)));
      pending[static_cast<size_t>(row)] = {region, {out, stride}};
      pool->Submit(row, region, decode_.channels, out, stride);
    }
    pool->Flush();
  }

 private:
  // An image in the pool.
  struct Pending {
    Region region;
    Pixels pixels;
  };

  Region Draw(int64_t height, int64_t width, int64_t row, const Run& run) const {
    RandomStream random = run.Random(row, stage_);
    return DrawCrop(height, width, crop_.area, crop_.aspect, random);
  }

  void Resize(const Pixels& pixels, const Region& region, int64_t row, Column& images,
              Run& run) const {
    const Shape shape{crop_.height, crop_.width, decode_.channels};
    auto* out = static_cast<uint8_t*>(run.Allocate(images, row, shape));
    ResizeBilinear(pixels.data, region.height, region.width, pixels.stride, decode_.channels, out,
                   crop_.height, crop_.width, run.arena());
  }

  absl::Status Decode(std::string_view encoded, bool refused, int64_t row, Column& images,
                      Run& run) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, Open(encoded, decode_.max_pixels, refused));
    const Region region = Draw(decoder->info().height, decoder->info().width, row, run);
    MILLRACE_ASSIGN_OR_RETURN(const Pixels pixels,
                              decoder->DecodeRegion(region, decode_.channels, run.arena()));
    Resize(pixels, region, row, images, run);
    return absl::OkStatus();
  }

  const DecodeImageOptions decode_;
  const RandomResizedCropOptions crop_;
  const uint64_t stage_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImage(DecodeImageOptions options) {
  MILLRACE_RETURN_IF_ERROR(Validate(options));
  return std::make_unique<DecodeImage>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeRandomResizedCrop(DecodeImageOptions decode,
                                                                RandomResizedCropOptions crop,
                                                                const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(Validate(decode));
  MILLRACE_RETURN_IF_ERROR(Validate(crop));
  if (crop.field != decode.output) {
    return absl::InvalidArgumentError(absl::StrCat("random_resized_crop: field '", crop.field,
                                                   "' is not decode_image's output '",
                                                   decode.output, "'"));
  }
  return std::make_unique<DecodeRandomResizedCrop>(std::move(decode), std::move(crop),
                                                   HashName(stage));
}

}  // namespace millrace::augment
