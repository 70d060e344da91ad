#include "readers/container/tfrecord_frame.h"

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace millrace::readers {

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
  const std::byte* payload = frame + kHeaderBytes;
  return BothCrcsOk({{frame, 8}, LoadU32(frame + 8)},
                    {{payload, length}, LoadU32(payload + length)});
}

}  // namespace millrace::readers
