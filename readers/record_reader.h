#ifndef MILLRACE_READERS_RECORD_READER_H_
#define MILLRACE_READERS_RECORD_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "readers/open_file.h"
#include "readers/record.h"

namespace millrace::readers {

// Reads records of one shard in file order.
// Thread-compatible: one thread at a time; open one reader per worker.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // Reads the next record; blocks on the file.
  //   value      a record; its bytes live as long as the record's keep_alive
  //   nullopt    end of the shard; every later call returns nullopt too
  //   DATA_LOSS  damage, told apart by RecordError (file, offset, ordinal, reason). ReadsOn says
  //              whether the next call continues behind it; if not, every later call returns the
  //              same error
  //   other      the file could not be read; the reader is dead
  virtual absl::StatusOr<std::optional<Record>> Next() = 0;

  // True if Next can go on behind the error that it returned last: after kDataCrc, and with
  // `resync` after all damage but kWrongCompression.
  virtual bool ReadsOn() const = 0;
  // Inflated bytes that were damaged and passed over. A place where a stream could not be inflated
  // counts as 16 bytes.
  virtual uint64_t skipped_bytes() const = 0;
};

struct TfRecordReaderOptions {
  Compression compression = Compression::kAuto;
  bool verify_crc = true;  // true if both CRCs are checked; false trusts the lengths
  // A longer length is kAbsurdLength and is never allocated.
  uint64_t max_record_bytes = uint64_t{1} << 30;
  // True to go on after lost framing (with verify_crc): at the next offset where a header with a
  // good CRC and a payload with a good CRC begin, in a damaged gzip or zstd stream at the next
  // member or frame (damage/compressed.h). The bytes between are one stretch of damage with an
  // ordinal of its own. A record before it whose CRC is bad belongs to the stretch, since it may
  // hold the begin of a good one. Nothing is read twice: memory for one record of max_record_bytes
  // is enough.
  bool resync = false;

  // performance only: results are the same for every value
  size_t chunk_bytes = 1 << 20;  // bytes read at a time
  // For local files. With kMmap the records of an uncompressed file are its pages themselves and
  // nothing is copied. Records change if the file is written to while they are held; if it is cut
  // short, a look at them ends the process by SIGBUS.
  FileAccess access = {};
};

// Opens a TFRecord shard (readers/FORMAT.md).
//   NOT_FOUND, PERMISSION_DENIED, ...  the file cannot be opened
absl::StatusOr<std::unique_ptr<RecordReader>> OpenTfRecordReader(
    const std::string& path, const TfRecordReaderOptions& options = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_READER_H_
