#ifndef MILLRACE_BASE_CRC32C_H_
#define MILLRACE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

// CRC-32C (Castagnoli), masked as TFRecord files and Millrace's indexes store it: rotated right by
// 15 bits, plus 0xa282ead8.

namespace millrace {

// True if the processor's own instruction sums short inputs, and the program was not started with
// MILLRACE_SIMD=none in its environment (base/simd.h). The sums are the same either way.
bool HasCrcInstruction();

// Returns the masked sum of `bytes`.
uint32_t MaskedCrc32c(std::span<const std::byte> bytes);

// A stretch of bytes with the masked sum that was stored for it.
struct SummedBytes {
  std::span<const std::byte> bytes;
  uint32_t masked = 0;
};

// Returns true if both sums are right. Faster than two calls of MaskedCrc32c when both stretches
// are short: the processor overlaps the two sums.
bool BothCrcsOk(const SummedBytes& first, const SummedBytes& second);

// The masked sum of bytes that come in pieces. Thread-compatible.
class Crc32c {
 public:
  void Add(std::span<const std::byte> bytes);
  uint32_t Masked() const;

 private:
  uint32_t crc_ = 0xffffffffu;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_CRC32C_H_
