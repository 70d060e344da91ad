#ifndef MILLRACE_READERS_INFLATE_BYTE_SOURCE_H_
#define MILLRACE_READERS_INFLATE_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/record_error.h"
#include "readers/record.h"

namespace millrace::readers {

// Number of zeros that stand for a missing part of a compressed stream, however long that is:
// enough for a frame, and never the header of one.
inline constexpr uint64_t kLostBytes = 16;

// A part of the inflated bytes that is damaged, or the zeros that stand for a missing part.
struct LostBytes {
  uint64_t begin = 0;
  uint64_t bytes = kLostBytes;
  absl::Status damage;  // DATA_LOSS: RecordError has file and reason, no place
};

// Bytes that lie in memory as long as `held` lives.
struct HeldBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> held;
};

// The (inflated) bytes of a shard, from the first to the last. The seam between what a
// file is compressed with and how records are cut out of it. Thread-compatible.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Reads some bytes to the front of `out` (not empty); blocks on the file.
  //   > 0        that many bytes, perhaps fewer than asked for
  //   0          the end; a compressed stream ended with its own end marker and checksum
  //   DATA_LOSS  the compressed stream is damaged: RecordError has file and reason, no place.
  //              Everything before the damage has been delivered; later calls say the same
  //   other      the file could not be read
  virtual absl::StatusOr<size_t> Read(std::span<std::byte> out) = 0;
  // Instead of reading: `count` bytes, of which the first `again` are the last that were read;
  // fewer at the end of the file. Empty: they can only be read.
  virtual HeldBytes Borrow(size_t /*again*/, size_t /*count*/) { return {}; }

  // The bytes still to come where that is known (a plain file).
  virtual std::optional<uint64_t> Remaining() const = 0;
  // The lost bytes that a source has met so far, in order, if it goes on behind damage
  // (damage/compressed.h).
  virtual std::span<const LostBytes> lost() const { return {}; }
  // For messages.
  virtual const std::string& path() const = 0;
};

// Returns the kind of stream that begins with `first`; kNone if none does.
Compression CompressionOf(std::span<const std::byte> first);

// Opens the bytes of `file`, reading `chunk_bytes` of compressed bytes at a time.
// REQUIRES: compression is not kAuto.
absl::StatusOr<std::unique_ptr<ByteSource>> MakeByteSource(
    std::shared_ptr<const RandomAccessFile> file, Compression compression,
    size_t chunk_bytes = 256 << 10);

// Returns the first of `lost` that has bytes in [begin, end); null if none has.
const LostBytes* FindLost(std::span<const LostBytes> lost, uint64_t begin, uint64_t end);

// True if a gzip, zlib or zstd stream (`compression`) may begin with `first` (at least one byte).
// Judges as many bytes as there are.
bool LooksLike(Compression compression, std::span<const std::byte> first);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INFLATE_BYTE_SOURCE_H_
