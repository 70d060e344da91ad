#include "readers/inflate/span_inflate.h"

#include <zstd.h>

#include <algorithm>

// The inflater is put in the middle of a stream as raw deflate: a dictionary for the 32 KiB that
// came before, and the bits that are left of the byte in which a block begins go where it keeps the
// bits that it has read and not used. Trailers are jumped over: their sums are those of whole
// members.

namespace millrace::readers {
namespace {

constexpr uint32_t kGzipTrailerBytes = 8;
constexpr uint32_t kZlibHeaderBytes = 2;
constexpr size_t kStepBytes = 256 << 10;

}  // namespace

void SpanInflater::FreeContext::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

std::string_view SpanInflater::Inflate(const CompressedSpan& span, std::span<std::byte> out) {
  if (span.compression == Compression::kZstd) return InflateZstd(span.in, out);
  isal_inflate_init(&state_);
  state_.next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(span.in.data()));
  state_.avail_in = static_cast<uint32_t>(span.in.size());
  std::string_view wrong = span.in_member ? EnterBlock(span) : EnterMember(span.compression);
  while (wrong.empty() && !out.empty()) {
    if (state_.block_state == ISAL_BLOCK_FINISH) {
      LeaveMember();
      if (state_.avail_in == 0 || span.compression != Compression::kGzip)
        return "it ends too early";
      wrong = EnterMember(span.compression);
      continue;
    }
    const auto step = static_cast<uint32_t>(std::min(out.size(), kStepBytes));
    state_.next_out = reinterpret_cast<uint8_t*>(out.data());
    state_.avail_out = step;
    const uint32_t in_before = state_.avail_in;
    if (isal_inflate(&state_) != ISAL_DECOMP_OK) return "invalid deflate data";
    const uint32_t got = step - state_.avail_out;
    out = out.subspan(got);
    const bool moved = got > 0 || state_.avail_in != in_before;
    if (!moved && state_.block_state != ISAL_BLOCK_FINISH) return "it ends too early";
  }
  return wrong;
}

// A span of zstd is whole frames.
std::string_view SpanInflater::InflateZstd(std::span<const std::byte> in,
                                           std::span<std::byte> out) {
  if (zstd_ == nullptr) zstd_.reset(ZSTD_createDCtx());
  if (zstd_ == nullptr) return "no memory";
  const size_t got = ZSTD_decompressDCtx(zstd_.get(), out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(got)) return ZSTD_getErrorName(got);
  return got == out.size() ? "" : "it ends too early";
}

std::string_view SpanInflater::EnterMember(Compression compression) {
  isal_inflate_reset(&state_);
  state_.crc_flag = ISAL_DEFLATE;
  if (compression == Compression::kZlib) {
    if (state_.avail_in < kZlibHeaderBytes) return "it ends too early";
    state_.next_in += kZlibHeaderBytes;
    state_.avail_in -= kZlibHeaderBytes;
    return "";
  }
  isal_gzip_header_init(&header_);
  state_.crc_flag = ISAL_GZIP_NO_HDR;
  if (isal_read_gzip_header(&state_, &header_) != ISAL_DECOMP_OK) return "no gzip header";
  state_.crc_flag = ISAL_DEFLATE;
  return "";
}

std::string_view SpanInflater::EnterBlock(const CompressedSpan& span) {
  state_.crc_flag = ISAL_DEFLATE;
  auto* const window = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(span.window.data()));
  if (isal_inflate_set_dict(&state_, window, static_cast<uint32_t>(span.window.size())) !=
      ISAL_DECOMP_OK) {
    return "no window";
  }
  if (span.skip_bits == 0) return "";
  if (state_.avail_in == 0) return "it ends too early";
  state_.read_in = static_cast<uint64_t>(*state_.next_in) >> span.skip_bits;
  state_.read_in_length = static_cast<int32_t>(8 - span.skip_bits);
  ++state_.next_in;
  --state_.avail_in;
  return "";
}

// Goes to what is behind the trailer; the inflater may have read into it.
void SpanInflater::LeaveMember() {
  const auto read = static_cast<uint32_t>(state_.read_in_length / 8);
  const uint32_t skip = std::min(kGzipTrailerBytes, state_.avail_in + read);
  state_.next_in += static_cast<int64_t>(skip) - read;
  state_.avail_in = state_.avail_in + read - skip;
}

}  // namespace millrace::readers
