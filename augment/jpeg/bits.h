#ifndef MILLRACE_AUGMENT_JPEG_BITS_H_
#define MILLRACE_AUGMENT_JPEG_BITS_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "augment/jpeg/target.h"

namespace millrace::augment::jpeg {

MILLRACE_INLINE uint64_t LoadBigEndian(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
  return word;
}

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_BITS_H_
