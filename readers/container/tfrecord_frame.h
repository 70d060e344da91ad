#ifndef MILLRACE_READERS_CONTAINER_TFRECORD_FRAME_H_
#define MILLRACE_READERS_CONTAINER_TFRECORD_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

// The framing of a TFRecord file (readers/FORMAT.md), shared by reader, writer and index.

namespace millrace::readers {

inline constexpr size_t kHeaderBytes = 12;  // u64 length, u32 masked CRC of those 8 bytes
inline constexpr size_t kFooterBytes = 4;   // u32 masked CRC of the payload
inline constexpr size_t kFrameBytes = kHeaderBytes + kFooterBytes;
// Above this length offset arithmetic could wrap around, so that no limit of a caller allows it.
inline constexpr uint64_t kMaxLength = std::numeric_limits<int64_t>::max() - kFrameBytes;

struct FrameHeader {
  uint64_t length = 0;
  bool crc_ok = false;  // true if the CRC is that of the length
};

// Decodes the kHeaderBytes at `header`.
FrameHeader DecodeHeader(const std::byte* header);
// Encodes the header of a payload of `length` bytes to the kHeaderBytes at `header`.
void EncodeHeader(uint64_t length, std::byte* header);
// Whether the payload and the kFooterBytes after it agree.
bool PayloadCrcOk(std::span<const std::byte> payload_and_footer);
// Whether the whole frame at `frame` is one of a payload of `length` bytes; without `verify_crc`
// only the length is compared.
bool FrameOk(const std::byte* frame, uint64_t length, bool verify_crc);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONTAINER_TFRECORD_FRAME_H_
