#include "base/philox.h"

#include <cassert>

namespace millrace {
namespace {

constexpr uint32_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
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

// FNV-1a, then a mixer so that near names give far values.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  return Mix64(hash);
}

// The counter is {draw block, record low, record high ^ low half of the sub-index << 16, epoch};
// the rest of the sub-index goes into the key. Records below 2^48 and epochs below 2^32 never share
// a block.
RandomStream::RandomStream(const RandomKey& key) {
  const uint64_t mixed = Mix64(key.seed + 0x9E3779B97F4A7C15ull) ^ key.op;
  const uint64_t folded = Mix64(mixed ^ Mix64(key.sub_index >> 16));
  key_ = {static_cast<uint32_t>(folded), static_cast<uint32_t>(folded >> 32)};
  counter_ = {
      0, static_cast<uint32_t>(key.record),
      static_cast<uint32_t>(key.record >> 32) ^ (static_cast<uint32_t>(key.sub_index) << 16),
      static_cast<uint32_t>(key.epoch)};
}

uint32_t RandomStream::NextU32() {
  if (used_ == 4) {
    block_ = Philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t RandomStream::NextU64() {
  const uint64_t low = NextU32();
  return low | (uint64_t{NextU32()} << 32);
}

float RandomStream::NextFloat() { return static_cast<float>(NextU32() >> 8) * 0x1p-24f; }

double RandomStream::NextDouble() { return static_cast<double>(NextU64() >> 11) * 0x1p-53; }

uint64_t RandomStream::Below(uint64_t bound) {
  assert(bound > 0);
  // Draws at or above the largest multiple of `bound` would favour small values: draw again.
  const uint64_t rest = (~uint64_t{0} % bound + 1) % bound;
  uint64_t word;
  do {
    word = NextU64();
  } while (word > ~uint64_t{0} - rest);
  return word % bound;
}

}  // namespace millrace
