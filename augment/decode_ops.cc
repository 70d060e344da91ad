#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "augment/errors_internal.h"
#include "augment/image_decoder_internal.h"
#include "augment/image_ops.h"
#include "augment/jpeg/lane_pool_internal.h"
#include "augment/options_internal.h"
#include "augment/pixel_tail_internal.h"
#include "augment/region_internal.h"
#include "base/status.h"
#include "readers/exif.h"

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
  const std::pair<const char*, int64_t> limits[] = {{"max_pixels", options.max_pixels},
                                                    {"max_scans", options.max_scans},
                                                    {"max_memory_bytes", options.max_memory_bytes}};
  for (const auto& [name, limit] : limits) {
    if (limit > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("decode_image: ", name, " is ", limit, "; expected > 0"));
  }
  if (options.verify_full && options.allow_truncated) {
    return absl::InvalidArgumentError("decode_image: verify_full and allow_truncated: not both");
  }
  return absl::OkStatus();
}

// Of an op that does not crop.
absl::Status DecodesAlone(const DecodeImageOptions& options) {
  if (!options.dct_downscale) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "decode_image: dct_downscale needs a random_resized_crop of its output, without boxes or a "
      "mask, "
      "directly behind it");
}

absl::Status ValidatePair(const DecodeImageOptions& decode, const RandomResizedCropOptions& crop) {
  MILLRACE_RETURN_IF_ERROR(Validate(decode));
  MILLRACE_RETURN_IF_ERROR(Validate(crop));
  if (crop.field == decode.output) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("random_resized_crop: field '", crop.field,
                                                 "' is not decode_image's output '", decode.output,
                                                 "'"));
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

// Images of a run: decoded a few in turns, of which the last ones of a run are left alone. More than
// these cost memory and gain little.
constexpr int64_t kPreferredRows = 16;

// Opens `encoded` in a decoder that may go to a LanePool. False: it is to be decoded by OpenImage.
bool OpenForLanes(std::string_view encoded, const DecodeImageOptions& options,
                  jpeg::RegionDecoder& decoder) {
  if (!MayUseRegionDecoder(options) || !decoder.Open(encoded)) return false;
  if (int64_t{decoder.frame().height} * decoder.frame().width > options.max_pixels) return false;
  return !options.apply_exif_orientation || readers::ReadOrientation(encoded) == 1;
}

// How many times smaller a region may be decoded that is resized to height x width.
int DctDenominator(const Region& region, int64_t height, int64_t width) {
  for (const int denominator : {8, 4, 2}) {
    if (region.height >= height * denominator && region.width >= width * denominator) {
      return denominator;
    }
  }
  return 1;
}

// What a random_resized_crop behind decode_image will keep.
struct CropToCome {
  RandomResizedCropOptions options;
  uint64_t stage = 0;
};

// Opens `encoded` for one decoding: by libjpeg-turbo at once where a LanePool has `refused` it, or
// the same damage would be met twice before its turn.
absl::StatusOr<std::unique_ptr<ImageDecoder>> Open(std::string_view encoded,
                                                   const DecodeImageOptions& options,
                                                   bool refused) {
  if (!refused) return OpenImage(encoded, options);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ImageDecoder> decoder, OpenLibjpeg(encoded, options));
  MILLRACE_RETURN_IF_ERROR(decoder->CheckHeader());
  return decoder;
}

class DecodeImage final : public Op {
 public:
  explicit DecodeImage(DecodeImageOptions options, std::optional<CropToCome> crop = std::nullopt)
      : options_(std::move(options)), crop_(std::move(crop)) {}

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
      if (!OpenForLanes(encoded.bytes(row), options_, decoder)) {
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

  int64_t preferred_rows() const override { return kPreferredRows; }

 private:
  absl::Status Decode(std::string_view encoded, bool refused, int64_t row, Column& images,
                      Run& run) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, Open(encoded, options_, refused));
    const Shape shape{decoder->info().height, decoder->info().width, options_.channels};
    auto* pixels = static_cast<uint8_t*>(run.Allocate(images, row, shape));
    absl::Status status = decoder->DecodeAll(options_.channels, run.arena(), pixels);
    if (status.ok() || !crop_.has_value() || options_.verify_full) return status;
    return DecodeCrop(encoded, shape, row, pixels, run);
  }

  // Of an image that cannot be decoded as a whole, what the crop needs; nothing else is looked at.
  absl::Status DecodeCrop(std::string_view encoded, const Shape& shape, int64_t row,
                          uint8_t* pixels, Run& run) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, OpenImage(encoded, options_));
    RandomStream random = run.Random(row, crop_->stage);
    const Region region =
        DrawCrop(shape[0], shape[1], crop_->options.area, crop_->options.aspect, random);
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
  const std::optional<CropToCome> crop_;
};

// Memory of the arena for the few images that are being decoded at a time: what one is done with is
// taken for the next, while the caches have it.
class PixelBuffers {
 public:
  explicit PixelBuffers(RunArena& arena) : arena_(arena) {}

  // `bytes`, and kPixelsSlack behind them that may be read.
  std::span<uint8_t> Take(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes + kPixelsSlack);
    const auto fits = std::ranges::find_if(
        idle_, [&](const std::span<uint8_t>& buffer) { return buffer.size() >= size; });
    if (fits == idle_.end()) {
      return {reinterpret_cast<uint8_t*>(arena_.Allocate(size)), size};
    }
    const std::span<uint8_t> buffer = *fits;
    idle_.erase(fits);
    return buffer;
  }
  void GiveBack(std::span<uint8_t> buffer) { idle_.push_back(buffer); }

 private:
  RunArena& arena_;
  std::vector<std::span<uint8_t>> idle_;
};

// decode_image, random_resized_crop and what follows them in one: only the crop's region is decoded.
class DecodeRandomResizedCrop final : public Op {
 public:
  DecodeRandomResizedCrop(DecodeImageOptions decode, RandomResizedCropOptions crop, uint64_t stage,
                          PixelTail tail)
      : decode_(std::move(decode)), crop_(std::move(crop)), stage_(stage), tail_(std::move(tail)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(Schema schema,
                              ResolveDecode(input, decode_, crop_.height, crop_.width));
    return tail_.Resolve(std::move(schema), decode_.output);
  }

  void Apply(Run& run) const override {
    const Column encoded = run.Take(decode_.field);
    const Shape shape = tail_.ShapeOf(crop_.height, crop_.width);
    Column& images = run.Add(decode_.output, tail_.dtype());
    // Of all rows at once: images come out of the pool in any order.
    const auto row_bytes = static_cast<size_t>(shape.num_elements()) * SizeOf(tail_.dtype());
    std::byte* const first = run.AllocateAll(images, shape);
    images.SetAll(first, static_cast<int64_t>(row_bytes), shape);
    const auto out = [&](int64_t row) { return first + static_cast<size_t>(row) * row_bytes; };
    const auto decode = [&](int64_t row, bool refused) {
      absl::Status status = Decode(encoded.bytes(row), refused, row, out(row), run);
      if (!status.ok()) run.Fail(row, Annotate(status, decode_.field));
    };
    PixelBuffers buffers(run.arena());
    std::vector<Pending> pending(static_cast<size_t>(run.num_rows()));
    const auto pool = std::make_unique<jpeg::LanePool>([&](int64_t row, bool ok) {
      const Pending& image = pending[static_cast<size_t>(row)];
      if (ok) {
        const Pixels pixels{image.buffer.data(), image.region.width * decode_.channels};
        Write(pixels, image.region, row, run, out(row));
      } else {
        decode(row, true);
      }
      buffers.GiveBack(image.buffer);
    });
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      jpeg::RegionDecoder& decoder = pool->idle();
      if (!OpenForLanes(encoded.bytes(row), decode_, decoder)) {
        decode(row, false);
        continue;
      }
      const Region region = Draw(decoder.frame().height, decoder.frame().width, row, run);
      if (Denominator(region) > 1) {
        decode(row, false);
        continue;
      }
      const int64_t stride = region.width * decode_.channels;
      const std::span<uint8_t> buffer = buffers.Take(region.height * stride);
      pending[static_cast<size_t>(row)] = {region, buffer};
      pool->Submit(row, region, decode_.channels, buffer.data(), stride);
    }
    pool->Flush();
  }

  int64_t preferred_rows() const override { return kPreferredRows; }

 private:
  // An image in the pool.
  struct Pending {
    Region region;
    std::span<uint8_t> buffer;
  };

  Region Draw(int64_t height, int64_t width, int64_t row, const Run& run) const {
    RandomStream random = run.Random(row, stage_);
    return DrawCrop(height, width, crop_.area, crop_.aspect, random);
  }

  void Write(const Pixels& pixels, const Region& region, int64_t row, Run& run, void* out) const {
    PixelSource source{pixels.data,   DType::kU8,   pixels.stride,
                       region.height, region.width, decode_.channels};
    source.resized = true;
    source.out_height = crop_.height;
    source.out_width = crop_.width;
    tail_.Write(source, row, run, out);
  }

  absl::Status Decode(std::string_view encoded, bool refused, int64_t row, void* out,
                      Run& run) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, Open(encoded, decode_, refused));
    const Region region = Draw(decoder->info().height, decoder->info().width, row, run);
    const int denominator = Denominator(region);
    Region decoded = region;
    MILLRACE_ASSIGN_OR_RETURN(
        const Pixels pixels,
        denominator == 1
            ? decoder->DecodeRegion(region, decode_.channels, run.arena())
            : decoder->DecodeScaled(region, denominator, decode_.channels, run.arena(), &decoded));
    Write(pixels, decoded, row, run, out);
    return absl::OkStatus();
  }

  int Denominator(const Region& region) const {
    return decode_.dct_downscale ? DctDenominator(region, crop_.height, crop_.width) : 1;
  }

  const DecodeImageOptions decode_;
  const RandomResizedCropOptions crop_;
  const uint64_t stage_;
  PixelTail tail_;  // constant after Resolve
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImage(DecodeImageOptions options) {
  MILLRACE_RETURN_IF_ERROR(Validate(options));
  MILLRACE_RETURN_IF_ERROR(DecodesAlone(options));
  return std::make_unique<DecodeImage>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImageToCrop(DecodeImageOptions decode,
                                                          RandomResizedCropOptions crop,
                                                          const std::string& crop_stage) {
  MILLRACE_RETURN_IF_ERROR(ValidatePair(decode, crop));
  MILLRACE_RETURN_IF_ERROR(DecodesAlone(decode));
  return std::make_unique<DecodeImage>(std::move(decode),
                                       CropToCome{std::move(crop), HashName(crop_stage)});
}

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeRandomResizedCrop(DecodeImageOptions decode,
                                                                RandomResizedCropOptions crop,
                                                                const std::string& stage) {
  return MakeDecodeCropTail(std::move(decode), std::move(crop), stage, PixelTail());
}

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeCropTail(DecodeImageOptions decode,
                                                       RandomResizedCropOptions crop,
                                                       const std::string& stage, PixelTail tail) {
  MILLRACE_RETURN_IF_ERROR(ValidatePair(decode, crop));
  return std::make_unique<DecodeRandomResizedCrop>(std::move(decode), std::move(crop),
                                                   HashName(stage), std::move(tail));
}

}  // namespace millrace::augment
