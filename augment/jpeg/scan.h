#ifndef MILLRACE_AUGMENT_JPEG_SCAN_H_
#define MILLRACE_AUGMENT_JPEG_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "augment/jpeg/target.h"

namespace millrace::augment::jpeg {

// Number of zero bytes behind a segment's data. One block, at most 64 symbols of 31 bits, may be
// decoded past the end before that is noticed, and a load reads eight bytes.
inline constexpr size_t kSegmentPadding = 512;

// Uninitialised memory that only grows.
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

// Reads the entropy-coded bytes between two markers, without the zeros that are stuffed behind each
// 0xFF. The marker behind them is not judged before a decoder comes there.
class ScanReader {
 public:
  // Starts behind the header of a scan; `bytes` must outlive the reader.
  void Start(std::string_view bytes, Level level);
  // Reads the next segment. Segments after the first follow RST0, RST1, ..., RST7, RST0, ...; false
  // if another marker or none follows.
  bool Next();

  const uint8_t* data() const { return buffer_.data(); }
  // Number of bits that may be used. The last bits of a segment without a marker at its end are
  // held back: libjpeg, which reads ahead, would warn that the file has ended.
  size_t num_bits() const { return num_bits_; }

 private:
  [[maybe_unused]] Level level_ = Level::kScalar;
  const uint8_t* next_ = nullptr;
  const uint8_t* end_ = nullptr;
  int marker_ = 0;  // marker at the end of the segment, 0xD0 for RST0; -1: none
  int num_restarts_ = -1;
  size_t num_bits_ = 0;
  Buffer<uint8_t> buffer_;
};

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_SCAN_H_
