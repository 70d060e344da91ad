#ifndef MILLRACE_BASE_PERMUTATION_H_
#define MILLRACE_BASE_PERMUTATION_H_

#include <cstdint>

namespace millrace {

// A keyed permutation of [0, size) evaluated one index at a time, in O(1) memory: a balanced
// Feistel network over the next even number of bits, its round function one Philox block, values
// outside the range walked on until they fall inside (Black and Rogaway, "Ciphers with arbitrary
// finite domains"). Immutable, thread-safe.
class Permutation {
 public:
  // REQUIRES: size > 0.
  Permutation(uint64_t size, uint64_t key);

  uint64_t size() const { return size_; }
  // The image of `index`. REQUIRES: index < size().
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t Encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t key_;
  int half_bits_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_PERMUTATION_H_
