#ifndef MILLRACE_TESTS_SLOW_CRC32C_H_
#define MILLRACE_TESTS_SLOW_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace millrace {

// CRC-32C by its definition: reflected polynomial 0x82f63b78, one bit at a time.
inline uint32_t SlowCrc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1)));
  }
  return ~crc;
}

inline uint32_t SlowMaskedCrc(std::string_view bytes) {
  const uint32_t crc = SlowCrc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_SLOW_CRC32C_H_
