#ifndef MILLRACE_READERS_RECORD_SOURCE_H_
#define MILLRACE_READERS_RECORD_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/run.h"
#include "readers/container.h"
#include "readers/http_options.h"
#include "readers/open_file.h"
#include "readers/record.h"
#include "readers/shard_stamp.h"

namespace millrace::readers {

// What reading in the middle of compressed shards costs.
struct SpanFacts {
  uint64_t bytes = 0;            // inflated, of the shards that are entered in the middle
  uint64_t span_bytes = 0;       // inflated for one read, on average
  uint64_t kept_bytes = 0;       // of inflated spans that are kept, at most
  uint64_t most_kept_bytes = 0;  // the same if the order had use for more
};

struct RecordSourceOptions {
  ContainerOptions container;
  Compression compression = Compression::kAuto;
  bool verify_crc = true;
  uint64_t max_record_bytes = uint64_t{1} << 30;
  // A shard that is damaged, or that cannot be inflated to its end, opens, and what lies between a
  // record and the next good one is one record, which is damaged. TFRecord, with verify_crc: where
  // the next one is says salvage.h; a rest of less than 16 bytes belongs to the record before it,
  // at the front of a shard to that behind it. Other containers: shard_parts.h.
  bool resync = false;
  // Plain TFRecord files, with verify_crc: NVIDIA DALI's index (.idx) of each file, in the order of
  // the files; empty: the files tell. Records are those that it lists. It is believed no further
  // than each record's checksums vouch for it.
  std::vector<std::string> dali_index;
  HttpOptions http;  // of files that are URLs; cache_bytes below, if it is less, goes before http's

  // performance only: results are the same for every value
  // Where indexes are kept; empty: $XDG_CACHE_HOME/millrace or ~/.cache/millrace.
  std::string index_folder;
  int threads = 1;  // shards opened at once
  FileAccess access;
  // About so many inflated bytes lie between the places at which a compressed shard is entered,
  // from 4 KiB to 16 MiB; 0: 4 MiB. Less is read around a record, and more is kept beside the
  // index: up to 32 KiB a place. For each number that is asked for a shard is inflated once.
  uint64_t span_bytes = 0;
  // An order that jumps about within so many records reads short ones (1 KiB on average) from
  // blocks of the shards that are kept in memory: a copy each, not a system call. 0: none does. At
  // most cache_bytes, whatever the records take. Of compressed shards as much is kept inflated, but
  // 64 MiB in any case.
  uint64_t window_records = 0;
  size_t cache_bytes = 0;
  // Of an order that jumps from block to block of the source, the inflated bytes that it reads from
  // until it is done with a window of blocks; for compressed shards. At most cache_bytes are kept.
  uint64_t window_bytes = 0;
  // Called now and then, by one thread at a time, while shards without an index are walked or
  // compressed ones inflated: bytes done, bytes in all (as they lie on disk). May be empty.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;
};

// Random access to the records of a list of shards, by their number in the whole source. The index
// of a shard is read from the cache, or made on first touch by walking its frames. A compressed
// shard is inflated once to find where it can be entered (readers/FORMAT.md); a
// plain one that has an index is opened when it is first read. Holds at most half of the process's
// file descriptors and opens shards again as needed. Shards may be URLs, each of one version for as
// long as the source lives. Immutable after Open, thread-safe.
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  // `files` are in their final order (ExpandFiles). Blocks while indexes are made.
  //   INVALID_ARGUMENT  no files, or one is not a regular file; or a .idx is none of its file (the
  //                     text names its line)
  //   FAILED_PRECONDITION  a URL changed while it was read, or its server has no ranges
  //   DATA_LOSS         a shard's framing is damaged (RecordError says where)
  //   other             a file cannot be read
  static absl::StatusOr<std::unique_ptr<RecordSource>> Open(std::vector<std::string> files,
                                                            const RecordSourceOptions& options);

  virtual uint64_t num_records() const = 0;
  // False when all that a record is lies in its number.
  virtual bool has_bytes() const { return true; }
  virtual const std::vector<std::string>& files() const = 0;
  // REQUIRES: record < num_records().
  virtual RecordRef Locate(uint64_t record) const = 0;
  // The same for the record of each id. starts[i] becomes the place of its frame in a buffer that
  // holds all these frames one after the other, starts.back() their end.
  // REQUIRES: refs.size() == ids.size(), starts.size() == ids.size() + 1.
  virtual void LocateAll(std::span<const SampleId> ids, std::span<RecordRef> refs,
                         std::span<size_t> starts) const;
  // Whether its records have a label beside their bytes: the field "label".
  virtual bool has_labels() const { return false; }
  // REQUIRES: has_labels(), record < num_records().
  virtual int64_t Label(uint64_t /*record*/) const { return 0; }
  // What it keeps in memory as long as it lives, at most: indexes, blocks of the shards, inflated
  // spans.
  virtual uint64_t memory_bytes() const { return 0; }
  // nullopt: no shard is entered in the middle.
  virtual std::optional<SpanFacts> spans() const { return std::nullopt; }
  // The inflated bytes of a shard.
  virtual std::shared_ptr<const RandomAccessFile> file(uint32_t shard) const = 0;
  // Of the shard on disk, taken before it was opened; nullopt: it is no file.
  virtual std::optional<ShardStamp> stamp(uint32_t) const { return std::nullopt; }

  // The bytes of a record with its frame: file offset ref.offset, this many bytes.
  virtual uint64_t FramedBytes(const RecordRef& ref) const = 0;
  // Takes the payload out of the `framed` bytes read at ref.offset, checking what the container
  // lets it check; TFRecord: both CRCs, unless verify_crc is off.
  //   value      a view into `framed`
  //   DATA_LOSS  with RecordError: the bytes are damaged, or (kUnknown) are not the record that the
  //              index names
  virtual absl::StatusOr<std::string_view> Unframe(const RecordRef& ref,
                                                   std::span<const std::byte> framed) const = 0;

  // Unframe for records whose frames lie in one buffer, in order and perhaps with gaps, record i at
  // framed[starts[i]] and before starts[i + 1]. Writes the
  // payloads of the first records up to a damaged one and returns their number; what is wrong with
  // the one after them Unframe says. REQUIRES: starts.size() > refs.size(), payloads.size() >=
  // refs.size().
  virtual size_t UnframeAll(std::span<const RecordRef> refs, const std::byte* framed,
                            std::span<const size_t> starts,
                            std::span<std::string_view> payloads) const;

  // The data fingerprint (docs/semantics.md): digest of the ordered (basename, size, record count,
  // digest of the lengths); no paths, no times.
  virtual uint64_t Fingerprint() const = 0;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_SOURCE_H_
