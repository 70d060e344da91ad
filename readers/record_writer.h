#ifndef MILLRACE_READERS_RECORD_WRITER_H_
#define MILLRACE_READERS_RECORD_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/record.h"

namespace millrace::readers {

struct TfRecordWriterOptions {
  Compression compression = Compression::kNone;  // kAuto is INVALID_ARGUMENT
  int compression_level = 6;                     // zlib's or zstd's, 1 to 9
  bool sync = true;  // true if Close waits until the shard is on the disk
};

// Writes one TFRecord shard (readers/FORMAT.md) to a temporary file beside `path` and renames it
// on Close, so that `path` is either whole or untouched. Thread-compatible.
class TfRecordWriter {
 public:
  //   NOT_FOUND, PERMISSION_DENIED, ...  the temporary file cannot be made
  static absl::StatusOr<std::unique_ptr<TfRecordWriter>> Open(
      const std::string& path, const TfRecordWriterOptions& options = {});
  virtual ~TfRecordWriter() = default;  // without Close: removes the temporary file

  // Appends one record. After an error every later call returns it too.
  virtual absl::Status Write(std::string_view payload) = 0;
  // Flushes, syncs and renames. Call it once; nothing may be written afterwards.
  virtual absl::Status Close() = 0;

  virtual uint64_t num_records() const = 0;
  virtual uint64_t num_bytes() const = 0;  // before compression, frames included
};

// The bytes of one record of a TFRecord file, for files that grow while others read them: a reader
// sees the record whole if they are appended by one write.
std::string FramedTfRecord(std::string_view payload);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_WRITER_H_
