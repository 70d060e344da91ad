#ifndef MILLRACE_BASE_PERMUTATION_H_
#define MILLRACE_BASE_PERMUTATION_H_

#include <array>
#include <cstdint>

namespace millrace {

// A keyed permutation of [0, size) evaluated one index at a time, in O(1) memory: a balanced
// Feistel network over the next even number of bits, values outside the range walked on until they
// fall inside (Black and Rogaway, "Ciphers with arbitrary finite domains"). A round mixes one half
// with a round key by SplitMix64's finaliser; the round keys are Philox words of the key. It
// shuffles, it is no cipher. Immutable, thread-safe.
class Permutation {
 public:
  // REQUIRES: size > 0.
  Permutation(uint64_t size, uint64_t key);

  uint64_t size() const { return size_; }
  // The image of `index`. REQUIRES: index < size().
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t Encrypt(uint64_t value) const;

  static constexpr int kRounds = 6;

  uint64_t size_;
  int half_bits_;
  std::array<uint64_t, kRounds> round_keys_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_PERMUTATION_H_
