#include "base/philox.h"

#include <cassert>

#include "base/philox_words.h"

namespace millrace {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  return PhiloxBlock{counter, key}.Words();
}

// FNV-1a, then a mixer so that near names give far values.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  return Mix64(hash);
}

RandomStream::RandomStream(const RandomKey& key) {
  const PhiloxBlock first = FirstBlock(key);
  key_ = first.key;
  counter_ = first.counter;
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
