#ifndef MILLRACE_READERS_RECORD_INDEX_H_
#define MILLRACE_READERS_RECORD_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"

// The index of one shard: where its records begin. Internal; the file is in readers/FORMAT.md.

namespace millrace::readers {

// Begins of frames in the inflated shard, and the end of the last one: records + 1 numbers. Lengths
// follow from neighbours. 4 bytes of memory per record while the frames have less than 4 GiB
// together, else 8.
class RecordIndex {
 public:
  uint64_t num_records() const { return num_begins() - 1; }
  uint64_t offset(uint64_t record) const { return wide_.empty() ? begins_[record] : wide_[record]; }
  uint64_t length(uint64_t record) const;
  // Begins to load what offset and length of `record` need.
  void Prefetch(uint64_t record) const {
    if (wide_.empty()) {
      __builtin_prefetch(&begins_[record]);
    } else {
      __builtin_prefetch(&wide_[record]);
    }
  }
  uint64_t framed_bytes() const { return offset(num_records()); }
  // The length of the longest record, 0 for none.
  uint64_t longest() const { return longest_; }
  // xxh3 over the lengths, each as a little-endian u64.
  uint64_t LengthsDigest() const;

  // Adds the next record. REQUIRES: the sum of all frames fits into 63 bits.
  void Append(uint64_t length);
  // Makes an index of lengths stored as little-endian numbers of `width` bytes, 4 or 8; nullopt
  // when their frames do not have `framed_bytes` together.
  static std::optional<RecordIndex> FromLengths(std::span<const std::byte> lengths, uint32_t width,
                                                uint64_t framed_bytes);
  void ShrinkToFit();

 private:
  bool FillNarrow(std::span<const std::byte> lengths, uint64_t framed_bytes);
  uint64_t num_begins() const { return wide_.empty() ? begins_.size() : wide_.size(); }
  void Widen();

  std::vector<uint32_t> begins_ = {0};
  std::vector<uint64_t> wide_;  // instead of begins_, which then is empty
  uint64_t longest_ = 0;
};

struct WalkOptions {
  bool verify_crc = true;
  uint64_t max_record_bytes = uint64_t{1} << 30;
  bool plain = true;  // the bytes are those of the shard itself, not inflated ones
  std::function<void(uint64_t bytes)> advanced;  // called with the bytes walked since; may be empty
};

// Appends to `index` every whole record of `file` (inflated bytes) by walking the headers; payloads
// are jumped over, not read, where they are large. On an error `index` holds the records before it.
//   DATA_LOSS  with RecordError: the framing is damaged, as a RecordReader says it
absl::Status WalkRecords(const RandomAccessFile& file, const WalkOptions& options,
                         RecordIndex& index);

// What an index is made for; another size or time makes it stale.
struct ShardStamp {
  uint64_t file_size = 0;
  int64_t mtime_ns = 0;
};

// Reads size and modification time of `path`.
absl::StatusOr<ShardStamp> StampOf(const std::string& path);

std::vector<std::byte> EncodeIndex(const RecordIndex& index, const ShardStamp& stamp);
// Takes an index apart again.
//   DATA_LOSS            damaged, or not an index
//   FAILED_PRECONDITION  a good one, but of another version or for another stamp
absl::StatusOr<RecordIndex> DecodeIndex(std::span<const std::byte> bytes, const ShardStamp& stamp);

// The name of the index of the shard at `absolute_path`, within the folder of indexes.
std::string IndexName(const std::string& absolute_path);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_INDEX_H_
