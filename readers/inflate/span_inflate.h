#ifndef MILLRACE_READERS_INFLATE_SPAN_INFLATE_H_
#define MILLRACE_READERS_INFLATE_SPAN_INFLATE_H_

#include <isa-l/igzip_lib.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "readers/record.h"

struct ZSTD_DCtx_s;

namespace millrace::readers {

// A part of a compressed file that can be inflated by itself.
struct CompressedSpan {
  Compression compression = Compression::kGzip;
  std::span<const std::byte> in;  // from the byte on in which it begins
  unsigned skip_bits = 0;         // bits of the first byte that belong to what is before it, 0 to 7
  bool in_member = false;         // false if the header of a stream stands there
  std::span<const std::byte> window;  // in_member: the last inflated bytes before it
};

// Inflates spans. Thread-compatible; keep it, as it is large.
class SpanInflater {
 public:
  // Inflates until `out` is full. Returns what is wrong with the stream; empty: nothing was
  // noticed, which proves nothing: compare a digest.
  std::string_view Inflate(const CompressedSpan& span, std::span<std::byte> out);

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  std::string_view InflateZstd(std::span<const std::byte> in, std::span<std::byte> out);
  std::string_view EnterMember(Compression compression);
  std::string_view EnterBlock(const CompressedSpan& span);
  void LeaveMember();

  inflate_state state_ = {};
  isal_gzip_header header_ = {};                    // nothing of it is kept
  std::unique_ptr<ZSTD_DCtx_s, FreeContext> zstd_;  // made when it is needed
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INFLATE_SPAN_INFLATE_H_
