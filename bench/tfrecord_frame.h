#ifndef MILLRACE_BENCH_TFRECORD_FRAME_H_
#define MILLRACE_BENCH_TFRECORD_FRAME_H_

#include <isa-l/crc.h>

#include <cstddef>
#include <cstdint>

// The TFRecord frame for the limit programs: length (8 bytes), its CRC (4), payload, its CRC (4).

namespace millrace::bench {

inline constexpr size_t kHeaderBytes = 12;
inline constexpr size_t kFooterBytes = 4;

// Masked CRC-32C by ISA-L.
inline uint32_t MaskedCrc(const void* data, size_t size) {
  auto* bytes = static_cast<unsigned char*>(const_cast<void*>(data));  // ISA-L reads only
  const uint32_t crc = ~crc32_iscsi(bytes, static_cast<int>(size), ~0u);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_TFRECORD_FRAME_H_
