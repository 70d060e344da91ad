#include "readers/tfrecord_format.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace millrace::readers {

uint32_t MaskedCrc32c(std::span<const std::byte> bytes) {
  // ISA-L takes an int for the size and a pointer to non-const, which it only reads.
  constexpr size_t kPiece = size_t{1} << 30;
  uint32_t crc = 0xffffffffu;
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kPiece);
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    crc = crc32_iscsi(data, static_cast<int>(size), crc);
    bytes = bytes.subspan(size);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

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

}  // namespace millrace::readers
