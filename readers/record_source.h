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
#include "base/cancels.h"
#include "base/io.h"
#include "base/run.h"
#include "readers/container.h"
#include "readers/csv_columns.h"
#include "readers/http_options.h"
#include "readers/open_file.h"
#include "readers/record.h"
#include "readers/shard_stamp.h"

namespace millrace::readers {

// The cost of reading in the middle of compressed shards.
struct SpanFacts {
  uint64_t bytes = 0;            // inflated size of the shards that are entered in the middle
  uint64_t span_bytes = 0;       // inflated for one read, on average
  uint64_t kept_bytes = 0;       // limit on inflated spans that are kept in memory
  uint64_t most_kept_bytes = 0;  // the same limit if the order had use for more
};

// How an order goes through plain shards behind URLs.
struct FetchOrder {
  uint64_t window_records = 0;  // records within which it jumps about; UINT64_MAX: it goes anywhere
  uint64_t files = 1;           // files that are read side by side
  // Of every `stride_records` it reads `place_records`, one after the other.
  uint64_t place_records = 1;
  uint64_t stride_records = 1;
};

// Bytes fetched for each byte of records, above which that is too many.
inline constexpr double kMostFetched = 1.5;

// How plain shards behind URLs are read.
struct FetchFacts {
  bool single = false;       // true if records are fetched by themselves, false: in blocks
  uint64_t block_bytes = 0;  // bytes of a block
  uint64_t kept_bytes = 0;   // limit on the blocks that are kept in memory
};

struct RecordSourceOptions {
  ContainerOptions container;
  Compression compression = Compression::kAuto;
  bool verify_crc = true;  // true if the checksums of records are compared
  uint64_t max_record_bytes = uint64_t{1} << 30;
  // True to open a shard that is damaged, or that cannot be inflated to its end. Each stretch
  // between two good records then counts as one damaged record. TFRecord needs verify_crc;
  // damage/tfrecord.h says how the next good record is found. A rest of less than 16 bytes belongs
  // to the record before it, or at the front of a shard to the one behind it. For other containers
  // see damage/parts.h.
  bool resync = false;
  // NVIDIA DALI's index (.idx) of each file, in the order of the files, for plain TFRecord files
  // with verify_crc; empty: the files are walked. The records are those that the indexes list. Each
  // is checked by its checksums when it is read.
  std::vector<std::string> dali_index;
  // With container.has_header, the columns that the first row of each file is to name, unless
  // ignore_header_names is true.
  CsvColumns columns;
  bool ignore_header_names = false;  // true if the first row may have any names
  HttpOptions http;  // for files that are URLs; its cache_bytes is limited by the one below
  // Asked while files are opened and indexed, and, if some are URLs, as long as the source lives:
  // reads of these end as CANCELLED, too.
  Cancels cancels = {};

  // performance only: results are the same for every value
  // Folder of kept indexes; empty: $XDG_CACHE_HOME/millrace or ~/.cache/millrace.
  std::string index_folder;
  int threads = 1;  // shards opened at once
  FileAccess access;
  // Inflated bytes between the places at which a compressed shard can be entered, about; from 4 KiB
  // to 16 MiB, 0 is 4 MiB. A smaller distance inflates less around a record and keeps more beside
  // the index: up to 32 KiB for each place. A shard is inflated once for each distance.
  uint64_t span_bytes = 0;
  // Number of records within which the order jumps about (a shuffle's buffer); 0: it does not.
  // Short records (1 KiB on average) are then read from blocks of the shards that are kept in
  // memory, at most cache_bytes of them: a copy each, not a system call. As much of compressed
  // shards is kept inflated, but at least 64 MiB.
  uint64_t window_records = 0;
  size_t cache_bytes = 0;
  // For shards behind URLs: decides between blocks and records that are fetched by themselves.
  FetchOrder fetch_order;
  // Inflated bytes that an order which jumps from block to block reads from before it is done with
  // a window of blocks; for compressed shards. At most cache_bytes are kept.
  uint64_t window_bytes = 0;
  // Called now and then, by one thread at a time, while shards are walked or inflated, with the
  // bytes done and the bytes in all (as they lie on disk). May be empty.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;
};

// Random access to the records of a list of shards, by their number in the whole source.
//
// The index of a shard is read from the cache, or made on first touch by walking its frames. A
// compressed shard is inflated once to find where it can be entered (readers/FORMAT.md). A plain
// shard that has an index is opened when it is first read. The source holds at most half of the
// process's file descriptors and opens shards again as needed. Shards may be URLs; each is one
// version for as long as the source lives. Immutable after Open, thread-safe.
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  // `files` are in their final order (ExpandFiles). Blocks while indexes are made.
  //   INVALID_ARGUMENT  no files, one is not a regular file, a .idx does not fit its file (the
  //                     text names the line), or the header of a CSV file does not name the columns
  //   FAILED_PRECONDITION  a URL changed while it was read, or its server has no ranges
  //   DATA_LOSS         a shard's framing is damaged (RecordError says where)
  //   CANCELLED         `cancels` returned true; no index that is not whole is kept
  //   other             a file cannot be read
  static absl::StatusOr<std::unique_ptr<RecordSource>> Open(std::vector<std::string> files,
                                                            const RecordSourceOptions& options);

  virtual uint64_t num_records() const = 0;
  // False if records are numbers without bytes.
  virtual bool has_bytes() const { return true; }
  // True if the bytes of records lie in memory: they are not read from file(), and Unframe, which
  // gets no bytes then, finds them by the record's number.
  virtual bool in_place() const { return false; }
  virtual const std::vector<std::string>& files() const = 0;
  // REQUIRES: record < num_records().
  virtual RecordRef Locate(uint64_t record) const = 0;
  // Locates the record of each id. Sets starts[i] to the place of its frame in a buffer that holds
  // all these frames one after the other, and starts.back() to their end.
  // REQUIRES: refs.size() == ids.size(), starts.size() == ids.size() + 1.
  virtual void LocateAll(std::span<const SampleId> ids, std::span<RecordRef> refs,
                         std::span<size_t> starts) const;
  // True if records have a label beside their bytes: the field "label".
  virtual bool has_labels() const { return false; }
  // REQUIRES: has_labels(), record < num_records().
  virtual int64_t Label(uint64_t /*record*/) const { return 0; }
  // True if CellsOf is not empty for some shard.
  virtual bool has_cell_orders() const { return false; }
  // Where the columns that were asked for are in the rows of a shard of CSV: the number of cells in
  // a row, and then the cell of each column. Empty: they are the cells of a row, in their order.
  virtual std::span<const int64_t> CellsOf(uint32_t /*shard*/) const { return {}; }
  // Limit on the memory that it keeps as long as it lives: indexes, blocks of the shards, inflated
  // spans.
  virtual uint64_t memory_bytes() const { return 0; }
  // nullopt if no shard is entered in the middle.
  virtual std::optional<SpanFacts> spans() const { return std::nullopt; }
  // Bytes between two records that are read with them: copying 2 KiB from the page cache takes less
  // time than a second system call.
  virtual size_t gap_bytes() const { return 2 << 10; }
  // The inflated bytes of a shard; null if there are none to read.
  virtual std::shared_ptr<const RandomAccessFile> file(uint32_t shard) const = 0;
  // State of the shard on disk from before it was opened; nullopt if it is no file.
  virtual std::optional<ShardStamp> stamp(uint32_t) const { return std::nullopt; }

  // Records that are fetched by themselves (FetchFacts::single) and will be read, in this order.
  // Those that lie side by side become one request; nothing of a group is fetched twice. Other
  // records are left out. REQUIRES: `group` is above all groups before it.
  virtual void Expect(uint64_t /*group*/, std::span<const RecordRef> /*refs*/) const {}
  // All records of the group were read, or will not be.
  virtual void Forget(uint64_t /*group*/) const {}
  // At most so many bytes of expected records are kept or under way at once, one longer request,
  // and what reads wait for; 0 at first.
  virtual void KeepExpected(uint64_t /*bytes*/) const {}
  // nullopt if no plain shard is behind a URL.
  virtual std::optional<FetchFacts> fetches() const { return std::nullopt; }
  // Bytes of URLs that came since Open, but for those that were fetched ahead and not yet read.
  virtual uint64_t fetched_bytes() const { return 0; }

  // Size of a record with its frame, which begins at ref.offset.
  virtual uint64_t FramedBytes(const RecordRef& ref) const = 0;
  // Takes the payload out of the `framed` bytes that were read at ref.offset, and checks as much as
  // the container allows (of TFRecord both CRCs, unless verify_crc is off).
  //   value      a view into `framed`
  //   DATA_LOSS  with RecordError: the bytes are damaged, or (kUnknown) are not the record that the
  //              index names
  virtual absl::StatusOr<std::string_view> Unframe(const RecordRef& ref,
                                                   std::span<const std::byte> framed) const = 0;

  // Unframes records whose frames lie in one buffer, in order and perhaps with gaps: record i at
  // framed[starts[i]] and before starts[i + 1]. Writes the payloads of the records in front of the
  // first damaged one and returns their number; Unframe says what is wrong with that one.
  // REQUIRES: starts.size() > refs.size(), payloads.size() >= refs.size().
  virtual size_t UnframeAll(std::span<const RecordRef> refs, const std::byte* framed,
                            std::span<const size_t> starts,
                            std::span<std::string_view> payloads) const;

  // Data fingerprint (docs/semantics.md): a digest of the ordered (basename, size, record count,
  // digest of the lengths), without paths and times.
  virtual uint64_t Fingerprint() const = 0;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_SOURCE_H_
