#ifndef MILLRACE_READERS_CONTAINER_RECORD_INDEX_H_
#define MILLRACE_READERS_CONTAINER_RECORD_INDEX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/container/index_memory.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/file/index_key.h"
#include "readers/record.h"

// The index of one shard: where its records begin. Its file is described in readers/FORMAT.md.

namespace millrace::readers {

// The facts that an index has of the container of its frames.
struct FrameFormat {
  uint64_t key = 0;             // key of the container and its options; an index is for one key
  uint32_t overhead_bytes = 0;  // bytes of a frame that are no payload; 0 where only reading tells
  uint32_t least_bytes = 1;     // least size of a frame
  bool to_end = true;           // true if the last frame ends where the shard does
};
inline constexpr FrameFormat kTfRecordFrames = {
    .key = 0, .overhead_bytes = kFrameBytes, .least_bytes = kFrameBytes, .to_end = true};

// Begins of frames in the inflated shard, and the end of the last one: records + 1 numbers. Lengths
// follow from neighbours. 4 bytes of memory per record while the frames end before 4 GiB, else 8;
// none where frames of one size follow each other; 4 more where there are gaps between frames, for
// the lengths. Immutable and thread-safe; shares ownership of the memory.
class RecordIndex {
 public:
  RecordIndex() = default;  // an index of no records
  // Copies `begins` into `memory`, and where there are gaps between frames `lengths`, without a
  // frame's overhead, of all records. REQUIRES: at least one begin, and each is at least
  // format.least_bytes above the one before; no frame runs into the next.
  //   RESOURCE_EXHAUSTED  there is not as much memory
  static absl::StatusOr<RecordIndex> Make(std::span<const uint64_t> begins,
                                          const FrameFormat& format,
                                          std::shared_ptr<IndexMemory> memory,
                                          std::span<const uint32_t> lengths = {});
  // `count` frames of `frame_bytes` each, nothing of them payload but all, from `first` on; behind
  // them, unless it is nullopt, one more record of length 0, which takes `rest_bytes`.
  // REQUIRES: they end below 2^63.
  static RecordIndex Regular(uint64_t first, uint64_t frame_bytes, uint64_t count,
                             std::optional<uint64_t> rest_bytes = std::nullopt);
  // Takes over `begins` of `width` bytes each, which lie in `memory`, little-endian and aligned;
  // at least one. No length will be above `longest`, even if the begins say so.
  RecordIndex(std::shared_ptr<const IndexMemory> memory, std::span<const std::byte> begins,
              uint32_t width, const FrameFormat& format, uint64_t longest);

  uint64_t num_records() const { return num_records_; }
  uint64_t offset(uint64_t record) const {
    if (begins_ != nullptr) return begins_[record];
    if (wide_ != nullptr) return wide_[record];
    return record <= rest_ ? first_ + record * frame_bytes_ : end_;
  }
  uint64_t length(uint64_t record) const {
    if (lengths_ != nullptr) return lengths_[record];
    if (record == rest_) return 0;
    return std::min(offset(record + 1) - offset(record) - overhead_bytes_, longest_);
  }
  // Begins to load what offset and length of `record` need.
  void Prefetch(uint64_t record) const {
    if (begins_ != nullptr) {
      __builtin_prefetch(&begins_[record]);
    } else if (wide_ != nullptr) {
      __builtin_prefetch(&wide_[record]);
    }
    if (lengths_ != nullptr) __builtin_prefetch(&lengths_[record]);
  }
  // Where the last frame ends; 0 where there is none, or later.
  uint64_t end() const { return offset(num_records()); }
  // The length of the longest record, 0 for none.
  uint64_t longest() const { return longest_; }
  // xxh3 over the lengths, each as a little-endian u64; where frames are of one size over that and
  // their number.
  uint64_t LengthsDigest() const;

  // Bytes of a begin, 4 or 8, and the begins as they lie in memory: none where frames are of one
  // size.
  uint32_t width() const { return wide_ == nullptr ? sizeof *begins_ : sizeof *wide_; }
  std::span<const std::byte> bytes() const;
  // The memory of the index, lengths included.
  uint64_t memory_bytes() const {
    return bytes().size() + (lengths_ == nullptr ? 0 : num_records_ * sizeof *lengths_);
  }

 private:
  static constexpr uint32_t kNothing = 0;

  std::shared_ptr<const IndexMemory> memory_;
  const uint32_t* begins_ = &kNothing;
  const uint64_t* wide_ = nullptr;     // instead of begins_
  const uint32_t* lengths_ = nullptr;  // where they do not follow from begins
  uint64_t first_ = 0;                 // instead of both
  uint64_t frame_bytes_ = 0;
  uint64_t rest_ = UINT64_MAX;  // the record behind those of one size
  uint64_t end_ = 0;            // its end
  uint64_t num_records_ = 0;
  uint64_t overhead_bytes_ = 0;
  uint64_t longest_ = 0;
};

struct WalkOptions {
  bool verify_crc = true;  // true if the checksums of records are compared
  uint64_t max_record_bytes = uint64_t{1} << 30;
  bool plain = true;  // true if the bytes are those of the shard itself, not inflated ones
  // True for a tar where damage may be near, so that little is read at first.
  bool begins_narrow = false;
  std::function<void(uint64_t bytes)> advanced;  // called with the bytes walked since; may be empty
};

// The frames of a TFRecord file: replaces `begins` by the begins of all records of `file` (inflated
// bytes) and the end of the last, found by walking the headers; payloads are jumped over, not read,
// where they are large. On an error `begins` tells of the records before it.
//   DATA_LOSS  with RecordError: the framing is damaged, as a RecordReader says it
absl::Status WalkRecords(const RandomAccessFile& file, const WalkOptions& options,
                         std::vector<uint64_t>& begins);

// The part of a shard's index that is kept on disk.
struct ShardIndex {
  RecordIndex records;
  uint64_t lengths_digest = 0;  // records.LengthsDigest(), which has to look at every record
};

std::vector<std::byte> EncodeIndex(const ShardIndex& index, const IndexKey& key);
// Reads an index file into `memory`, of which one that is not returned takes nothing.
//   DATA_LOSS            damaged, or not an index
//   FAILED_PRECONDITION  a good one, but of another version or key, or not of a shard of
//                        `shard_bytes` (inflated)
//   other                the file cannot be read, or there is no memory
// REQUIRES: key.container is format.key.
absl::StatusOr<ShardIndex> ReadIndex(const RandomAccessFile& file, const IndexKey& key,
                                     const FrameFormat& format, uint64_t shard_bytes,
                                     const std::shared_ptr<IndexMemory>& memory);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONTAINER_RECORD_INDEX_H_
