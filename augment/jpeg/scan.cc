#include <algorithm>
#include <cstring>

#include "augment/jpeg/scan_internal.h"

namespace millrace::augment::jpeg {
namespace {

constexpr size_t kReadAheadBytes = 16;  // at least libjpeg's, whose bit buffer holds eight

}  // namespace

void ScanReader::Start(std::string_view bytes) {
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
