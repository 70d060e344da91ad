#ifndef MILLRACE_BASE_LITTLE_ENDIAN_H_
#define MILLRACE_BASE_LITTLE_ENDIAN_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Loads and stores of little-endian numbers at addresses of any alignment. Each is one instruction.

namespace millrace {

static_assert(std::endian::native == std::endian::little, "written for little-endian processors");

inline uint32_t LoadU32(const std::byte* from) {
  uint32_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline uint64_t LoadU64(const std::byte* from) {
  uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline void StoreU32(uint32_t value, std::byte* to) { std::memcpy(to, &value, sizeof value); }

inline void StoreU64(uint64_t value, std::byte* to) { std::memcpy(to, &value, sizeof value); }

}  // namespace millrace

#endif  // MILLRACE_BASE_LITTLE_ENDIAN_H_
