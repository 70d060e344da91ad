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

  // Whether Next goes on behind the error that it returned last: after kDataCrc, and with `resync`
  // after all damage but kWrongCompression.
  virtual bool ReadsOn() const = 0;
  // Of the inflated file, in what was damaged and passed over; a place where a stream could not be
  // inflated counts as kLostBytes.
  virtual uint64_t skipped_bytes() const = 0;
};

struct TfRecordReaderOptions {
  Compression compression = Compression::kAuto;
  bool verify_crc = true;  // both CRCs; false trusts the lengths
  uint64_t max_record_bytes = uint64_t{1}
                              << 30;  // a longer length is kAbsurdLength, never allocated
  // With verify_crc: after lost framing the reader goes on at the next offset where a header with a
  // good CRC begins whose payload has a good CRC too, in a damaged gzip or zstd stream at the next
  // member or frame (salvage_source.h). What lies between is one stretch of damage, with an ordinal
  // of its own; a record before it whose CRC is bad belongs to it, for that may hold the begin of a
  // good one. Nothing is read twice, so that memory is enough for one record of max_record_bytes.
  bool resync = false;

  // performance only: results are the same for every value
  size_t chunk_bytes = 1 << 20;  // bytes read at a time
  // Local files. With kMmap records of an uncompressed file are its pages themselves: nothing is
  // copied, a file that is written to while records are held changes them, and one that is cut
  // short while they are ends the process by SIGBUS when they are looked at.
  FileAccess access = {};
};

// Opens a TFRecord shard (readers/FORMAT.md).
//   NOT_FOUND, PERMISSION_DENIED, ...  the file cannot be opened
absl::StatusOr<std::unique_ptr<RecordReader>> OpenTfRecordReader(
    const std::string& path, const TfRecordReaderOptions& options = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_READER_H_
