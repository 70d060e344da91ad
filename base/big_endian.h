#ifndef MILLRACE_BASE_BIG_ENDIAN_H_
#define MILLRACE_BASE_BIG_ENDIAN_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

// Loads and stores of big-endian numbers at addresses of any alignment.

namespace millrace {

static_assert(std::endian::native == std::endian::little, "written for little-endian processors");

inline uint32_t LoadBigEndianU32(const void* from) {
  uint32_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return __builtin_bswap32(value);
}

inline uint64_t LoadBigEndianU64(const void* from) {
  uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return __builtin_bswap64(value);
}

// Returns the four bytes of `value`.
inline std::string BigEndianU32(uint32_t value) {
  std::string bytes(sizeof value, '\0');
  value = __builtin_bswap32(value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

}  // namespace millrace

#endif  // MILLRACE_BASE_BIG_ENDIAN_H_
