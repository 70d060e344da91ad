#ifndef MILLRACE_BASE_PHILOX_WORDS_H_
#define MILLRACE_BASE_PHILOX_WORDS_H_

#include <array>
#include <cstdint>

#include "base/philox.h"

// The arithmetic of philox.h as constant expressions, which a device's code may call too (nvcc's
// --expt-relaxed-constexpr).

namespace millrace {

// Philox4x32, and the counter and the key of a stream's first block.
struct PhiloxBlock {
  std::array<uint32_t, 4> counter;
  std::array<uint32_t, 2> key;

  constexpr std::array<uint32_t, 4> Words() const;
};

constexpr std::array<uint32_t, 4> PhiloxBlock::Words() const {
  constexpr uint32_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::array<uint32_t, 4> c = counter;
  std::array<uint32_t, 2> k = key;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMul0} * c[0];
    const uint64_t p1 = uint64_t{kMul1} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += kWeyl0;
    k[1] += kWeyl1;
  }
  return c;
}

// The first block of RandomStream(key); the n-th has n more in counter[0], modulo 2^32. The counter
// is {draw block, record low, record high ^ low half of the sub-index << 16, epoch}; the rest of
// the sub-index goes into the key. Records below 2^48 and epochs below 2^32 never share a block.
constexpr PhiloxBlock FirstBlock(const RandomKey& key) {
  const uint64_t mixed = Mix64(key.seed + 0x9E3779B97F4A7C15ull) ^ key.op;
  const uint64_t folded = Mix64(mixed ^ Mix64(key.sub_index >> 16));
  return {{0, static_cast<uint32_t>(key.record),
           static_cast<uint32_t>(key.record >> 32) ^ (static_cast<uint32_t>(key.sub_index) << 16),
           static_cast<uint32_t>(key.epoch)},
          {static_cast<uint32_t>(folded), static_cast<uint32_t>(folded >> 32)}};
}

}  // namespace millrace

#endif  // MILLRACE_BASE_PHILOX_WORDS_H_
