#include <spng.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/codec/decoder.h"
#include "augment/image/errors.h"
#include "base/big_endian.h"
#include "base/status.h"
#include "readers/image_header.h"
#include "readers/png_chunks.h"

namespace millrace::augment {
namespace {

using readers::PngChunks;

// Deflate expands at most 1032 times, so fewer bytes than this cannot hold the image.
constexpr uint64_t kMaxInflation = 1032;
// Ancillary chunks (profiles, texts) are read past; a larger one is not an image for training.
constexpr int64_t kMaxChunkBytes = 64 << 20;
constexpr size_t kSignatureBytes = 8;

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

uint32_t Crc(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

void AppendChunk(std::string_view type, std::string_view data, std::string* png) {
  png->append(BigEndianU32(static_cast<uint32_t>(data.size())));
  const size_t checked = png->size();
  png->append(type).append(data);
  png->append(BigEndianU32(Crc(std::string_view(*png).substr(checked))));
}

// The last chunk: no data, and their CRC.
constexpr std::string_view kEndChunk("\0\0\0\0IEND\xAE\x42\x60\x82", 12);

// A PNG that ends too early, with an end: libspng makes nothing of a chunk that is cut. Empty where
// nothing is missing.
std::string CloseCutPng(std::string_view encoded) {
  size_t at = kSignatureBytes;
  std::string_view cut;  // the pixels that are there of a chunk that is cut
  PngChunks chunks(encoded);
  while (const auto chunk = chunks.Next()) {
    if (!chunk->whole) {
      if (chunk->type == "IDAT") cut = chunk->data;
      break;
    }
    if (chunk->type == "IEND") return {};
    at = chunk->end;
  }
  std::string closed(encoded.substr(0, at));
  if (!cut.empty()) AppendChunk("IDAT", cut, &closed);
  return closed.append(kEndChunk);
}

// True if the CRC of a whole chunk is that of its type and data.
bool HasGoodCrc(const readers::PngChunk& chunk) {
  const size_t size = chunk.type.size() + chunk.data.size();
  return Crc({chunk.type.data(), size}) == LoadBigEndianU32(chunk.type.data() + size);
}

// True for chunks whose length goes by the palette's. None of them changes a colour.
bool GoesByPalette(std::string_view type) {
  return type == "tRNS" || type == "hIST" || type == "bKGD";
}

// A PNG whose palette has more colours than its depth can name, without those: libspng refuses
// them, and libpng leaves them out without a word. Empty where there are none.
std::string ShortenPalette(std::string_view encoded) {
  constexpr size_t kDepthAt = 24, kColorTypeAt = 25, kMostBytes = 3 * 256;
  if (encoded.size() <= kColorTypeAt || encoded[kColorTypeAt] != SPNG_COLOR_TYPE_INDEXED) return {};
  const auto depth = std::min<uint8_t>(static_cast<uint8_t>(encoded[kDepthAt]), 8);
  const size_t nameable = size_t{3} << depth;
  std::string shortened;
  size_t begin = kSignatureBytes;
  PngChunks chunks(encoded);
  while (const auto chunk = chunks.Next()) {
    if (!chunk->whole || chunk->type == "IDAT") break;
    if (shortened.empty() && chunk->type == "PLTE") {
      const size_t size = chunk->data.size();
      if (size <= nameable || size > kMostBytes || size % 3 != 0 || !HasGoodCrc(*chunk)) return {};
      shortened = encoded.substr(0, begin);
      AppendChunk("PLTE", chunk->data.substr(0, nameable), &shortened);
    } else if (!shortened.empty() && !GoesByPalette(chunk->type)) {
      shortened.append(encoded.substr(begin, chunk->end - begin));
    }
    begin = chunk->end;
  }
  return shortened.empty() ? shortened : shortened.append(encoded.substr(begin));
}

// Whether all of the last chunk is there: libspng does without its checksum.
bool EndsWhole(std::string_view encoded) {
  PngChunks chunks(encoded);
  while (const auto chunk = chunks.Next()) {
    if (chunk->type == "IEND") return chunk->whole;
  }
  return false;
}

class PngDecoder final : public ImageDecoder {
 public:
  explicit PngDecoder(const DecodeImageOptions& options)
      : allow_truncated_(options.allow_truncated),
        verify_full_(options.verify_full),
        max_chunk_bytes_(std::min(kMaxChunkBytes, options.max_memory_bytes)) {}

  absl::Status Open(std::string_view encoded) {
    context_.reset(spng_ctx_new(0));
    if (context_ == nullptr) return PngError(SPNG_EMEM);
    encoded_ = encoded;
    mended_ = ShortenPalette(encoded);
    if (!mended_.empty()) encoded = mended_;
    if (allow_truncated_) {
      std::string closed = CloseCutPng(encoded);
      if (!closed.empty()) mended_ = std::move(closed);
      if (!mended_.empty()) encoded = mended_;
    }
    const auto limit = static_cast<size_t>(max_chunk_bytes_);
    int code = spng_set_chunk_limits(context_.get(), limit, limit);
    if (code == 0) code = spng_set_png_buffer(context_.get(), encoded.data(), encoded.size());
    spng_ihdr header{};
    if (code == 0) code = spng_get_ihdr(context_.get(), &header);
    if (code != 0) return PngError(code);
    bits_per_pixel_ = uint64_t{header.bit_depth} * (header.color_type == SPNG_COLOR_TYPE_INDEXED
                                                        ? 1
                                                        : readers::PngChannels(header.color_type));
    is_grey_ = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && header.bit_depth <= 8;
    info_ = {.format = "png",
             .height = header.height,
             .width = header.width,
             .channels = readers::PngChannels(header.color_type)};
    return absl::OkStatus();
  }

  absl::Status DecodeAll(int channels, RunArena& arena, uint8_t* out) override {
    MILLRACE_RETURN_IF_ERROR(CheckBytes());
    const size_t pixels = static_cast<size_t>(info_.height * info_.width);
    if (channels == 3) return Decode(SPNG_FMT_RGB8, pixels * 3, out);
    if (is_grey_) return Decode(SPNG_FMT_G8, pixels, out);
    auto* rgb = reinterpret_cast<uint8_t*>(arena.Allocate(pixels * 3));
    MILLRACE_RETURN_IF_ERROR(Decode(SPNG_FMT_RGB8, pixels * 3, rgb));
    for (size_t i = 0; i < pixels; ++i) out[i] = Luma(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
    return absl::OkStatus();
  }

  // PNG filters chain rows and columns, so the whole image is decoded.
  absl::StatusOr<Pixels> DecodeRegion(const Region& region, int channels,
                                      RunArena& arena) override {
    MILLRACE_RETURN_IF_ERROR(CheckBytes());
    const int64_t stride = info_.width * channels;
    auto* all = reinterpret_cast<uint8_t*>(arena.Allocate(info_.height * stride + kPixelsSlack));
    MILLRACE_RETURN_IF_ERROR(DecodeAll(channels, arena, all));
    return Pixels{all + region.top * stride + region.left * channels, stride};
  }

 private:
  absl::Status PngError(int code) const {
    if (code == SPNG_EMEM) return absl::ResourceExhaustedError("PNG: out of memory");
    if (code == SPNG_ECHUNK_LIMITS) {
      return RowError(RecordErrorReason::kImage,
                      absl::StrCat("PNG: a chunk without pixels, or all of them, take more than ",
                                   max_chunk_bytes_,
                                   " bytes (max_memory_bytes, 64 MiB at most), or they are more "
                                   "than libspng takes"));
    }
    return ImageDamage(absl::StrCat("PNG: ", spng_strerror(code)));
  }

  absl::Status Decode(int format, size_t num_bytes, uint8_t* out) {
    if (allow_truncated_) return DecodeRows(format, num_bytes, out);
    if (int code = spng_decode_image(context_.get(), out, num_bytes, format, 0)) {
      return PngError(code);
    }
    // Decoding ends with the last pixel; the checksum of what it was made of stands behind that.
    if (int code = spng_decode_chunks(context_.get())) return PngError(code);
    if (verify_full_ && !EndsWhole(encoded_))
      return ImageDamage("PNG: its last chunk (IEND) is cut");
    return absl::OkStatus();
  }

  // Decodes the rows that are there; the others are black.
  absl::Status DecodeRows(int format, size_t num_bytes, uint8_t* out) {
    std::memset(out, 0, num_bytes);
    int code = spng_decode_image(context_.get(), nullptr, 0, format, SPNG_DECODE_PROGRESSIVE);
    const size_t row_bytes = num_bytes / static_cast<size_t>(info_.height);
    int64_t num_rows = 0;
    while (code == 0) {
      spng_row_info row{};
      code = spng_get_row_info(context_.get(), &row);
      if (code != 0) break;
      code = spng_decode_row(context_.get(), out + row.row_num * row_bytes, row_bytes);
      if (code == 0 || code == SPNG_EOI) ++num_rows;
    }
    if (num_rows > 0 && code != SPNG_EMEM) return absl::OkStatus();
    return PngError(code);
  }

  // Keeps a few bytes that say they are a large image from taking its memory.
  absl::Status CheckBytes() const {
    const uint64_t row_bits = static_cast<uint64_t>(info_.width) * bits_per_pixel_;
    // A row is whole bytes and one that names its filter. Interlaced images have more of both.
    const uint64_t raw = ((row_bits + 7) / 8 + 1) * static_cast<uint64_t>(info_.height);
    if (raw / kMaxInflation <= encoded_.size()) return absl::OkStatus();
    return ImageDamage(absl::StrCat("PNG: ", encoded_.size(), " bytes cannot hold ", info_.height,
                                    " x ", info_.width, " pixels"));
  }

  const bool allow_truncated_;
  const bool verify_full_;
  const int64_t max_chunk_bytes_;
  std::string mended_;    // instead of the file; empty: the file
  bool is_grey_ = false;  // of at most 8 bits
  std::unique_ptr<spng_ctx, FreeContext> context_;
  std::string_view encoded_;
  uint64_t bits_per_pixel_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenPng(std::string_view encoded,
                                                      const DecodeImageOptions& options) {
  auto decoder = std::make_unique<PngDecoder>(options);
  MILLRACE_RETURN_IF_ERROR(decoder->Open(encoded));
  return decoder;
}

}  // namespace millrace::augment
