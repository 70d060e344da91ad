#ifndef MILLRACE_READERS_PNG_CHUNKS_H_
#define MILLRACE_READERS_PNG_CHUNKS_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/big_endian.h"

namespace millrace::readers {

// A chunk as it lies in the file (ISO/IEC 15948, 5.3): length, type, data, CRC.
struct PngChunk {
  std::string_view type;
  std::string_view data;  // all of it, or as much as the file has
  size_t end = 0;         // offset behind its CRC
  bool whole = false;     // false if the file ends before `end`
};

// Walks the chunks of a file that begins with PNG's signature, without checking CRCs. Borrows the
// bytes. Thread-compatible.
class PngChunks {
 public:
  explicit PngChunks(std::string_view png) : png_(png), at_(std::min<size_t>(png.size(), 8)) {}

  // nullopt if fewer bytes are left than a chunk's head, or the chunk before was not whole.
  std::optional<PngChunk> Next() {
    constexpr size_t kHeadBytes = 8, kCrcBytes = 4;
    if (png_.size() - at_ < kHeadBytes) return std::nullopt;
    const size_t length = LoadBigEndianU32(&png_[at_]);
    const size_t left = png_.size() - at_ - kHeadBytes;
    PngChunk chunk{png_.substr(at_ + 4, 4), png_.substr(at_ + kHeadBytes, length)};
    chunk.whole = left >= length + kCrcBytes;
    chunk.end = at_ + kHeadBytes + length + kCrcBytes;
    at_ = chunk.whole ? chunk.end : png_.size();
    return chunk;
  }

 private:
  const std::string_view png_;
  size_t at_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PNG_CHUNKS_H_
