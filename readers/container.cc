#include "readers/container.h"

#include <array>

#include "base/status.h"
#include "readers/byte_source.h"
#include "readers/container_internal.h"

namespace millrace::readers {

std::unique_ptr<const Container> MakeContainer(const ContainerOptions& options, bool verify_crc) {
  switch (options.kind) {
    case ContainerKind::kTfRecord:
      break;
  }
  return MakeTfRecordContainer(verify_crc);
}

absl::Status DamagedRecord(const std::string& file, const RecordRef& ref, RecordErrorReason reason,
                           std::string_view text) {
  RecordError error;
  error.file = file;
  error.offset = static_cast<int64_t>(ref.offset);
  error.ordinal = static_cast<int64_t>(ref.ordinal);
  error.reason = reason;
  return MakeRecordError(absl::StatusCode::kDataLoss, error, text);
}

absl::StatusOr<Compression> DetectCompression(const RandomAccessFile& file,
                                              const Container& container) {
  std::array<std::byte, kProbeBytes> bytes = {};
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, bytes));
  const auto first = std::span<const std::byte>(bytes).first(got);
  return container.LooksPlain(first) ? Compression::kNone : CompressionOf(first);
}

}  // namespace millrace::readers
