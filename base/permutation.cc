#include "base/permutation.h"

#include <bit>
#include <cassert>

#include "base/philox.h"

namespace millrace {

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size) {
  assert(size > 0);
  const int bits = std::bit_width(size - 1);
  half_bits_ = (bits + 1) / 2;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto block = Philox4x32({round, 0, 0, 0x5045524D},
                                  {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    round_keys_[round] = block[0] | (uint64_t{block[1]} << 32);
  }
}

uint64_t Permutation::Encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (const uint64_t round_key : round_keys_) {
    const uint64_t next = left ^ (Mix64(right + round_key) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

uint64_t Permutation::operator()(uint64_t index) const {
  assert(index < size_);
  // At most 4 x size values lie in the network's domain, so fewer than 4 steps are expected.
  do {
    index = Encrypt(index);
  } while (index >= size_);
  return index;
}

}  // namespace millrace
