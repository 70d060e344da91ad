#include "base/permutation.h"

#include <bit>
#include <cassert>

#include "base/philox.h"

namespace millrace {
namespace {

constexpr int kRounds = 6;

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size), key_(key) {
  assert(size > 0);
  const int bits = std::bit_width(size - 1);
  half_bits_ = (bits + 1) / 2;
}

uint64_t Permutation::Encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto block = Philox4x32(
        {static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32), round, 0x5045524D},
        {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
    const uint64_t mixed = (block[0] | (uint64_t{block[1]} << 32)) & mask;
    const uint64_t next = left ^ mixed;
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
