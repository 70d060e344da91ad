#include <algorithm>
#include <memory>
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

// Images of a run: decoded a few in turns, of which the last ones of a run are left alone. More than
// these cost memory and gain little.
constexpr int64_t kPreferredRows = 16;

// Opens `encoded` in a decoder that may go to a LanePool. False: it is to be decoded by OpenImage.
bool OpenForLanes(std::string_view encoded, int64_t max_pixels, jpeg::RegionDecoder& decoder) {
  if (!decoder.Open(encoded)) return false;
  return int64_t{decoder.frame().height} * decoder.frame().width <= max_pixels;
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
    const auto decode = [&](int64_t row) {
      absl::Status status = Decode(encoded.bytes(row), row, images, run);
      if (!status.ok()) run.Fail(row, Annotate(status, options_.field));
    };
    const auto pool = std::make_unique<jpeg::LanePool>([&](int64_t row, bool ok) {
      if (!ok) decode(row);
    });
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      jpeg::RegionDecoder& decoder = pool->idle();
      if (!OpenForLanes(encoded.bytes(row), options_.max_pixels, decoder)) {
        decode(row);
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
  absl::Status Decode(std::string_view encoded, int64_t row, Column& images, Run& run) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, OpenImage(encoded, options_.max_pixels));
    const Shape shape{decoder->info().height, decoder->info().width, options_.channels};
    auto* pixels = static_cast<uint8_t*>(run.Allocate(images, row, shape));
    return decoder->DecodeAll(options_.channels, run.arena(), pixels);
  }

  const DecodeImageOptions options_;
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
    const auto decode = [&](int64_t row) {
      absl::Status status = Decode(encoded.bytes(row), row, out(row), run);
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
        decode(row);
      }
      buffers.GiveBack(image.buffer);
    });
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      jpeg::RegionDecoder& decoder = pool->idle();
      if (!OpenForLanes(encoded.bytes(row), decode_.max_pixels, decoder)) {
        decode(row);
        continue;
      }
      const Region region = Draw(decoder.frame().height, decoder.frame().width, row, run);
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

  absl::Status Decode(std::string_view encoded, int64_t row, void* out, Run& run) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto decoder, OpenImage(encoded, decode_.max_pixels));
    const Region region = Draw(decoder->info().height, decoder->info().width, row, run);
    MILLRACE_ASSIGN_OR_RETURN(const Pixels pixels,
                              decoder->DecodeRegion(region, decode_.channels, run.arena()));
    Write(pixels, region, row, run, out);
    return absl::OkStatus();
  }

  const DecodeImageOptions decode_;
  const RandomResizedCropOptions crop_;
  const uint64_t stage_;
  PixelTail tail_;  // constant after Resolve
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImage(DecodeImageOptions options) {
  MILLRACE_RETURN_IF_ERROR(Validate(options));
  return std::make_unique<DecodeImage>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeRandomResizedCrop(DecodeImageOptions decode,
                                                                RandomResizedCropOptions crop,
                                                                const std::string& stage) {
  return MakeDecodeCropTail(std::move(decode), std::move(crop), stage, PixelTail());
}

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeCropTail(DecodeImageOptions decode,
                                                       RandomResizedCropOptions crop,
                                                       const std::string& stage, PixelTail tail) {
  MILLRACE_RETURN_IF_ERROR(Validate(decode));
  MILLRACE_RETURN_IF_ERROR(Validate(crop));
  if (crop.field != decode.output) {
    return absl::InvalidArgumentError(absl::StrCat("random_resized_crop: field '", crop.field,
                                                   "' is not decode_image's output '",
                                                   decode.output, "'"));
  }
  return std::make_unique<DecodeRandomResizedCrop>(std::move(decode), std::move(crop),
                                                   HashName(stage), std::move(tail));
}

}  // namespace millrace::augment
