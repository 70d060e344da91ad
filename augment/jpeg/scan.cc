#include "augment/jpeg/scan.h"

#include <algorithm>
#include <cstring>

namespace millrace::augment::jpeg {
namespace {

constexpr size_t kReadAheadBytes = 16;  // at least libjpeg's, whose bit buffer holds eight

#if MILLRACE_JPEG_X86

// Copies without stuffed zeros while nothing else stands behind a 0xFF, up to the last few bytes.
// Writes up to 64 bytes beyond; returns the end.
MILLRACE_TARGET_AVX512 uint8_t* UnstuffAvx512(const uint8_t** next, const uint8_t* end,
                                              uint8_t* out) {
  constexpr ptrdiff_t kWidth = 64;
  const uint8_t* in = *next;
  while (end - in >= kWidth) {
    const __m512i bytes = _mm512_loadu_si512(in);
    const uint64_t escapes = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(-1));
    if (escapes == 0) {
      _mm512_storeu_si512(out, bytes);
      in += kWidth;
      out += kWidth;
      continue;
    }
    const uint64_t stuffed = escapes << 1;
    if ((stuffed & _mm512_test_epi8_mask(bytes, bytes)) != 0) break;
    // A last 0xFF is left to the next turn, which sees what is behind it.
    const uint64_t last = escapes & uint64_t{1} << (kWidth - 1);
    const uint64_t kept = ~(stuffed | last);
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, bytes));
    in += last == 0 ? kWidth : kWidth - 1;
    out += _mm_popcnt_u64(kept);
  }
  *next = in;
  return out;
}

#endif  // MILLRACE_JPEG_X86

}  // namespace

void ScanReader::Start(std::string_view bytes, Level level) {
  level_ = level;
  next_ = reinterpret_cast<const uint8_t*>(bytes.data());
  end_ = next_ + bytes.size();
  num_restarts_ = -1;
  marker_ = 0;
  num_bits_ = 0;
}

bool ScanReader::Next() {
  if (num_restarts_ >= 0 && marker_ != 0xD0 + num_restarts_ % 8) return false;
  ++num_restarts_;
  marker_ = -1;
  uint8_t* const begin = buffer_.Reserve(static_cast<size_t>(end_ - next_) + kSegmentPadding);
  uint8_t* out = begin;
#if MILLRACE_JPEG_X86
  if (level_ >= Level::kAvx512) out = UnstuffAvx512(&next_, end_, out);
#endif
  while (next_ < end_) {
    const size_t left = static_cast<size_t>(end_ - next_);
    const auto* found = static_cast<const uint8_t*>(std::memchr(next_, 0xFF, left));
    const size_t plain = found == nullptr ? left : static_cast<size_t>(found - next_);
    std::memcpy(out, next_, plain);
    out += plain;
    next_ += plain;
    if (end_ - next_ < 2) break;
    const uint8_t code = next_[1];
    next_ += 2;
    // Behind a second 0xFF libjpeg reads on for what the two begin.
    if (code == 0xFF) break;
    if (code != 0) {
      marker_ = code;
      break;
    }
    *out++ = 0xFF;
  }
  std::memset(out, 0, kSegmentPadding);
  size_t size = static_cast<size_t>(out - begin);
  if (marker_ < 0) size -= std::min(size, kReadAheadBytes);
  num_bits_ = size * 8;
  return true;
}

}  // namespace millrace::augment::jpeg
