#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

#include "base/simd.h"

namespace millrace {
namespace {

uint32_t Mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

// ISA-L folds long buffers fast, but reaches that through two calls, which cost more than the sum
// of a short one. Up to this size the processor's instruction in line wins (3 cycles for 8 bytes,
// and those of the next sum overlap with it).
constexpr size_t kInlineBytes = 512;

#ifdef __x86_64__
// Constant from the start of the program on, like the processor.
const bool kHasCrcInstruction = [] {
  return __builtin_cpu_supports("sse4.2") != 0 && SimdLimit() >= SimdLevel::kSse42;
}();

__attribute__((target("sse4.2"))) inline uint32_t InlineMasked(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  size_t size = bytes.size();
  uint64_t crc = 0xffffffffu;
  for (; size >= 8; size -= 8, at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto narrow = static_cast<uint32_t>(crc);
  if ((size & 4) != 0) {
    uint32_t word = 0;
    std::memcpy(&word, at, 4);
    narrow = __builtin_ia32_crc32si(narrow, word);
    at += 4;
  }
  for (size &= 3; size > 0; --size, ++at) {
    narrow = __builtin_ia32_crc32qi(narrow, static_cast<uint8_t>(*at));
  }
  return Mask(~narrow);
}

__attribute__((target("sse4.2"))) bool InlineBothOk(const SummedBytes& first,
                                                    const SummedBytes& second) {
  return InlineMasked(first.bytes) == first.masked && InlineMasked(second.bytes) == second.masked;
}
#else
constexpr bool kHasCrcInstruction = false;
uint32_t InlineMasked(std::span<const std::byte>) { return 0; }
bool InlineBothOk(const SummedBytes&, const SummedBytes&) { return false; }
#endif

}  // namespace

bool HasCrcInstruction() { return kHasCrcInstruction; }

uint32_t MaskedCrc32c(std::span<const std::byte> bytes) {
  if (bytes.size() <= kInlineBytes && kHasCrcInstruction) return InlineMasked(bytes);
  Crc32c crc;
  crc.Add(bytes);
  return crc.Masked();
}

bool BothCrcsOk(const SummedBytes& first, const SummedBytes& second) {
  if (std::max(first.bytes.size(), second.bytes.size()) <= kInlineBytes && kHasCrcInstruction) {
    return InlineBothOk(first, second);
  }
  return MaskedCrc32c(first.bytes) == first.masked && MaskedCrc32c(second.bytes) == second.masked;
}

void Crc32c::Add(std::span<const std::byte> bytes) {
  // ISA-L takes an int for the size and a pointer to non-const, which it only reads.
  constexpr size_t kPiece = size_t{1} << 30;
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kPiece);
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    crc_ = crc32_iscsi(data, static_cast<int>(size), crc_);
    bytes = bytes.subspan(size);
  }
}

uint32_t Crc32c::Masked() const { return Mask(~crc_); }

}  // namespace millrace
