#ifndef MILLRACE_READERS_WRITE_RECORD_WRITER_H_
#define MILLRACE_READERS_WRITE_RECORD_WRITER_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/atomic_file.h"
#include "readers/record_writer.h"

namespace millrace::readers {

// The layer between frames and the file: a buffer, and compression where it is asked for.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual absl::Status Append(std::span<const std::byte> data) = 0;
  virtual absl::Status Finish() = 0;  // writes all that is left
};

// The sink of one compression, which is not kAuto; `level` is zlib's or zstd's, 1 to 9. `file` must
// outlive it.
std::unique_ptr<RecordSink> MakeRecordSink(AtomicFile& file, Compression compression, int level);

// Seekable zstd (readers/FORMAT.md).
std::unique_ptr<RecordSink> MakeZstdSink(AtomicFile& file, int level);

// TfRecordWriter::Open with `write_function` in write's place, for tests with faults.
absl::StatusOr<std::unique_ptr<TfRecordWriter>> OpenTfRecordWriterWith(
    const std::string& path, const TfRecordWriterOptions& options, WriteFunction write_function);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_WRITE_RECORD_WRITER_H_
