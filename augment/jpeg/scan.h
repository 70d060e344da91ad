#ifndef MILLRACE_AUGMENT_JPEG_SCAN_H_
#define MILLRACE_AUGMENT_JPEG_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "augment/jpeg/target.h"

namespace millrace::augment::jpeg {

// Zero bytes behind a segment's data: one block may be decoded past its end before that is seen, at
// most 64 symbols of 31 bits, and a load reads eight bytes.
inline constexpr size_t kSegmentPadding = 512;

// Memory that only grows, not initialised.
template <typename T>
class Buffer {
 public:
  T* Reserve(size_t count) {
    if (count > size_) {
      data_ = std::make_unique_for_overwrite<T[]>(count);
      size_ = count;
    }
    return data_.get();
  }
  T* data() const { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
  size_t size_ = 0;
};

// The entropy-coded bytes between two markers, without the zeros stuffed behind each 0xFF. What
// ends them is not judged before a decoder comes there.
class ScanReader {
 public:
  // Starts behind the header of a scan; `bytes` must outlive the reader.
  void Start(std::string_view bytes, Level level);
  // Reads the next segment. Those after the first stand behind RST0, RST1, ..., RST7, RST0, ...;
  // false where another marker or none stands.
  bool Next();

  const uint8_t* data() const { return buffer_.data(); }
  // Bits of it that may be used. Of a segment that no marker ends the last are held back: libjpeg,
  // which reads ahead, would warn that the file has ended.
  size_t num_bits() const { return num_bits_; }

 private:
  [[maybe_unused]] Level level_ = Level::kScalar;
  const uint8_t* next_ = nullptr;
  const uint8_t* end_ = nullptr;
  int marker_ = 0;  // that ended the segment, 0xD0 for RST0; -1: none
  int num_restarts_ = -1;
  size_t num_bits_ = 0;
  Buffer<uint8_t> buffer_;
};

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_SCAN_H_
