#include <spng.h>

#include "absl/strings/str_cat.h"
#include "augment/errors_internal.h"
#include "augment/image_decoder_internal.h"
#include "base/status.h"
#include "readers/image_header.h"

namespace millrace::augment {
namespace {

// Deflate expands at most 1032 times, so fewer bytes than this cannot hold the image.
constexpr uint64_t kMaxInflation = 1032;
// Ancillary chunks (profiles, texts) are read past; a larger one is not an image for training.
constexpr size_t kMaxChunkBytes = 64 << 20;

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

absl::Status PngError(int code) {
  if (code == SPNG_EMEM) return absl::ResourceExhaustedError("PNG: out of memory");
  return RowError(RecordErrorReason::kImage, absl::StrCat("PNG: ", spng_strerror(code)));
}

class PngDecoder final : public ImageDecoder {
 public:
  absl::Status Open(std::string_view encoded) {
    context_.reset(spng_ctx_new(0));
    if (context_ == nullptr) return PngError(SPNG_EMEM);
    encoded_bytes_ = encoded.size();
    int code = spng_set_chunk_limits(context_.get(), kMaxChunkBytes, kMaxChunkBytes);
    if (code == 0) code = spng_set_png_buffer(context_.get(), encoded.data(), encoded.size());
    spng_ihdr header{};
    if (code == 0) code = spng_get_ihdr(context_.get(), &header);
    if (code != 0) return PngError(code);
    bits_per_pixel_ = uint64_t{header.bit_depth} * (header.color_type == SPNG_COLOR_TYPE_INDEXED
                                                        ? 1
                                                        : readers::PngChannels(header.color_type));
    info_ = {.format = "png",
             .height = header.height,
             .width = header.width,
             .channels = readers::PngChannels(header.color_type)};
    return absl::OkStatus();
  }

  absl::Status DecodeAll(int channels, RunArena& arena, uint8_t* out) override {
    MILLRACE_RETURN_IF_ERROR(CheckBytes());
    const size_t pixels = static_cast<size_t>(info_.height * info_.width);
    const bool direct = channels == 3;
    auto* rgb = direct ? out : reinterpret_cast<uint8_t*>(arena.Allocate(pixels * 3));
    if (int code = spng_decode_image(context_.get(), rgb, pixels * 3, SPNG_FMT_RGB8, 0)) {
      return PngError(code);
    }
    // Decoding ends with the last pixel; the checksum of what it was made of stands behind that.
    if (int code = spng_decode_chunks(context_.get())) return PngError(code);
    if (direct) return absl::OkStatus();
    for (size_t i = 0; i < pixels; ++i) out[i] = Luma(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
    return absl::OkStatus();
  }

  // PNG filters chain rows and columns, so the whole image is decoded.
  absl::StatusOr<Pixels> DecodeRegion(const Region& region, int channels,
                                      RunArena& arena) override {
    MILLRACE_RETURN_IF_ERROR(CheckBytes());
    const int64_t stride = info_.width * channels;
    auto* all = reinterpret_cast<uint8_t*>(arena.Allocate(info_.height * stride + 16));
    MILLRACE_RETURN_IF_ERROR(DecodeAll(channels, arena, all));
    return Pixels{all + region.top * stride + region.left * channels, stride};
  }

 private:
  // Keeps a few bytes that claim to be a large image from taking its memory.
  absl::Status CheckBytes() const {
    const uint64_t row_bits = static_cast<uint64_t>(info_.width) * bits_per_pixel_;
    const uint64_t raw = (row_bits / 8) * static_cast<uint64_t>(info_.height);
    if (raw / kMaxInflation <= encoded_bytes_) return absl::OkStatus();
    return RowError(RecordErrorReason::kImage,
                    absl::StrCat("PNG: ", encoded_bytes_, " bytes cannot hold ", info_.height,
                                 " x ", info_.width, " pixels"));
  }

  std::unique_ptr<spng_ctx, FreeContext> context_;
  size_t encoded_bytes_ = 0;
  uint64_t bits_per_pixel_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenPng(std::string_view encoded) {
  auto decoder = std::make_unique<PngDecoder>();
  MILLRACE_RETURN_IF_ERROR(decoder->Open(encoded));
  return decoder;
}

}  // namespace millrace::augment
