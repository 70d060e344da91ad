#ifndef MILLRACE_READERS_RECORD_READER_H_
#define MILLRACE_READERS_RECORD_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
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
  //   DATA_LOSS  damage, told apart by RecordError (file, offset, ordinal, reason). After kDataCrc
  //              the next call continues with the following record; after any other damage the
  //              framing is lost and every later call returns the same error
  //   other      the file could not be read; the reader is dead
  virtual absl::StatusOr<std::optional<Record>> Next() = 0;
};

// Whether a reader whose Next returned `status` goes on with the following record: after kDataCrc.
bool ReadsOnAfter(const absl::Status& status);

struct TfRecordReaderOptions {
  Compression compression = Compression::kAuto;
  bool verify_crc = true;  // both CRCs; false trusts the lengths
  uint64_t max_record_bytes = uint64_t{1}
                              << 30;  // a longer length is kAbsurdLength, never allocated

  // performance only: results are the same for every value
  size_t chunk_bytes = 1 << 20;  // bytes read at a time
};

// Opens a TFRecord shard (readers/FORMAT.md).
//   NOT_FOUND, PERMISSION_DENIED, ...  the file cannot be opened
absl::StatusOr<std::unique_ptr<RecordReader>> OpenTfRecordReader(
    const std::string& path, const TfRecordReaderOptions& options = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_READER_H_
