#include "readers/container/detect.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/foreign_kind.h"
#include "readers/inflate/byte_source.h"

namespace millrace::readers {

absl::StatusOr<Compression> DetectCompression(const RandomAccessFile& file) {
  std::array<std::byte, kHeaderBytes> first = {};
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, first));
  if (got == first.size() && DecodeHeader(first.data()).crc_ok) return Compression::kNone;
  return CompressionOf({first.data(), got});
}

absl::StatusOr<Compression> DetectCompression(const RandomAccessFile& file,
                                              const Container& container) {
  std::array<std::byte, kProbeBytes> bytes = {};
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, bytes));
  const auto first = std::span<const std::byte>(bytes).first(got);
  return container.LooksPlain(first) ? Compression::kNone : CompressionOf(first);
}

BadHeader ExplainBadHeader(const std::byte* header, uint64_t offset, bool plain) {
  if (offset > 0) return {RecordErrorReason::kLengthCrc, "the CRC of the length does not match"};
  switch (plain ? CompressionOf({header, kHeaderBytes}) : Compression::kNone) {
    case Compression::kGzip:
      return {RecordErrorReason::kWrongCompression,
              "this is a gzip stream; compression is \"none\""};
    case Compression::kZlib:
      return {RecordErrorReason::kWrongCompression,
              "this is a zlib stream; compression is \"none\""};
    case Compression::kZstd:
      return {RecordErrorReason::kWrongCompression,
              "this is a zstd stream; compression is \"none\""};
    default:
      break;
  }
  const std::string_view kind = ForeignKind({reinterpret_cast<const char*>(header), kHeaderBytes});
  if (!kind.empty()) {
    return {RecordErrorReason::kLengthCrc, absl::StrCat("not a TFRecord file, but ", ToAbsl(kind))};
  }
  return {RecordErrorReason::kLengthCrc,
          "the CRC of the length does not match; is this a TFRecord file, and is the compression "
          "right?"};
}

}  // namespace millrace::readers
