#ifndef MILLRACE_READERS_INFLATE_ACCESS_POINTS_H_
#define MILLRACE_READERS_INFLATE_ACCESS_POINTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/file/index_key.h"
#include "readers/record.h"

// Where a compressed shard can be entered. Its file is described in readers/FORMAT.md.

namespace millrace::readers {

// The bytes that deflate may refer back to.
inline constexpr size_t kWindowBytes = 32 << 10;
// The least and the most bytes of a span, inflated and as it lies in the file; the last span of a
// file may have fewer. At most so much is allocated for a span, even if a file of points says more.
inline constexpr uint64_t kLeastSpanBytes = 4 << 10;
inline constexpr uint64_t kMostSpanBytes = 32 << 20;

// From one place where a stream can be entered to the next.
struct AccessSpan {
  uint64_t in_bits = 0;    // where it begins in the file, in bits
  bool in_member = false;  // false if a stream's header stands there: nothing else is needed
  uint64_t out = 0;        // where it begins in the inflated bytes
  uint64_t digest = 0;     // xxh3-64 of its inflated bytes
  // The kWindowBytes (or all) that were inflated before it, deflated, in AccessPoints::windows.
  uint64_t window_at = 0;
  uint32_t window_bytes = 0;   // 0: none is needed
  uint64_t window_digest = 0;  // xxh3-64 of the deflated bytes
};

// The points of one file. A value type; shares ownership of `windows`.
struct AccessPoints {
  Compression compression = Compression::kGzip;
  std::vector<AccessSpan> spans;  // in order, the first from 0
  uint64_t in_bytes = 0;          // bytes of the file
  uint64_t out_bytes = 0;         // inflated
  std::shared_ptr<const RandomAccessFile> windows;

  uint64_t out_end(size_t span) const {
    return span + 1 < spans.size() ? spans[span + 1].out : out_bytes;
  }
  size_t span_bytes(size_t span) const { return out_end(span) - spans[span].out; }
  // The bytes of the file that the span's inflation needs.
  uint64_t in_begin(size_t span) const { return spans[span].in_bits / 8; }
  uint64_t in_end(size_t span) const {
    return span + 1 < spans.size() ? (spans[span + 1].in_bits + 7) / 8 : in_bytes;
  }
  // The span that holds the inflated byte at `offset`. REQUIRES: offset < out_bytes.
  size_t SpanOf(uint64_t offset) const;
  // Without windows that are in memory only.
  uint64_t memory_bytes() const { return sizeof *this + spans.size() * sizeof(AccessSpan); }
};

// Deflates up to kWindowBytes for AccessSpan. Thread-compatible.
class WindowPacker {
 public:
  WindowPacker();
  ~WindowPacker();
  std::vector<std::byte> Pack(std::span<const std::byte> window);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};
// Undoes it, into the front of `window`, which has kWindowBytes.
//   value    how many there are
//   nullopt  they are damaged
std::optional<size_t> UnpackWindow(std::span<const std::byte> packed, std::span<std::byte> window);

// The name of the file of points within the folder of indexes.
std::string PointsName(const IndexKey& key);

// The file; `windows` are those of all spans one after the other, as window_at says.
std::vector<std::byte> EncodePoints(const AccessPoints& points, std::span<const std::byte> windows,
                                    const IndexKey& key);
// Reads all but the windows, which stay in `file`. The points that it returns are within the limits
// above and in order, but may still be lies.
//   DATA_LOSS            damaged, or not such a file
//   FAILED_PRECONDITION  a good one, but of another version or key
//   other                it cannot be read
absl::StatusOr<AccessPoints> ReadPoints(std::shared_ptr<const RandomAccessFile> file,
                                        const IndexKey& key);

// `bytes` as a file.
std::shared_ptr<const RandomAccessFile> MakeMemoryFile(std::vector<std::byte> bytes,
                                                       std::string path);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INFLATE_ACCESS_POINTS_H_
