#include "readers/container/tfrecord_frame.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/simd.h"

namespace millrace::readers {
namespace {

uint32_t Mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

// ISA-L folds long buffers fast, but reaches that through two calls, which cost more than the sum
// of a short one. Up to so many bytes the processor's instruction in line wins (3 cycles for 8
// bytes, and those of the next record overlap with it).
constexpr size_t kInlineCrcBytes = 512;

#ifdef __x86_64__
// Constant from the start of the program on, like the processor.
const bool kHasCrcInstruction = [] {
  return __builtin_cpu_supports("sse4.2") != 0 && SimdLimit() >= SimdLevel::kSse42;
}();

__attribute__((target("sse4.2"))) inline uint32_t InlineMaskedCrc(const std::byte* at,
                                                                  size_t size) {
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

__attribute__((target("sse4.2"))) bool InlineFrameCrcsOk(const std::byte* frame, uint64_t length) {
  uint32_t length_crc = 0;
  uint32_t payload_crc = 0;
  std::memcpy(&length_crc, frame + 8, 4);
  std::memcpy(&payload_crc, frame + kHeaderBytes + length, 4);
  return InlineMaskedCrc(frame, 8) == length_crc &&
         InlineMaskedCrc(frame + kHeaderBytes, length) == payload_crc;
}
#else
constexpr bool kHasCrcInstruction = false;
uint32_t InlineMaskedCrc(const std::byte*, size_t) { return 0; }
bool InlineFrameCrcsOk(const std::byte*, uint64_t) { return false; }
#endif

}  // namespace

bool HasCrcInstruction() { return kHasCrcInstruction; }

uint32_t MaskedCrc32c(std::span<const std::byte> bytes) {
  if (bytes.size() <= kInlineCrcBytes && kHasCrcInstruction) {
    return InlineMaskedCrc(bytes.data(), bytes.size());
  }
  Crc32c crc;
  crc.Add(bytes);
  return crc.Masked();
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

// The format's order is the processor's, so that a load or store is one instruction.
static_assert(std::endian::native == std::endian::little, "written for little-endian processors");

uint32_t LoadU32(const std::byte* from) {
  uint32_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

uint64_t LoadU64(const std::byte* from) {
  uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void StoreU32(uint32_t value, std::byte* to) { std::memcpy(to, &value, sizeof value); }

void StoreU64(uint64_t value, std::byte* to) { std::memcpy(to, &value, sizeof value); }

FrameHeader DecodeHeader(const std::byte* header) {
  return {LoadU64(header), MaskedCrc32c({header, 8}) == LoadU32(header + 8)};
}

void EncodeHeader(uint64_t length, std::byte* header) {
  StoreU64(length, header);
  StoreU32(MaskedCrc32c({header, 8}), header + 8);
}

bool PayloadCrcOk(std::span<const std::byte> payload_and_footer) {
  const size_t length = payload_and_footer.size() - kFooterBytes;
  return MaskedCrc32c(payload_and_footer.first(length)) ==
         LoadU32(payload_and_footer.data() + length);
}

bool FrameOk(const std::byte* frame, uint64_t length, bool verify_crc) {
  if (LoadU64(frame) != length) return false;
  if (!verify_crc) return true;
  if (length <= kInlineCrcBytes && kHasCrcInstruction) return InlineFrameCrcsOk(frame, length);
  return DecodeHeader(frame).crc_ok && PayloadCrcOk({frame + kHeaderBytes, length + kFooterBytes});
}

}  // namespace millrace::readers
