#ifndef MILLRACE_READERS_RECORD_WRITER_INTERNAL_H_
#define MILLRACE_READERS_RECORD_WRITER_INTERNAL_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "readers/atomic_file.h"
#include "readers/record_writer.h"

namespace millrace::readers {

// What stands between frames and the file: a buffer, and compression where it is asked for.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual absl::Status Append(std::span<const std::byte> data) = 0;
  virtual absl::Status Finish() = 0;  // writes all that is left
};

// `compression` is not kAuto. Borrows the file.
std::unique_ptr<RecordSink> MakeRecordSink(AtomicFile& file, Compression compression, int level);
// Its part for seekable zstd (readers/FORMAT.md).
std::unique_ptr<RecordSink> MakeZstdSink(AtomicFile& file, int level);

// TfRecordWriter::Open with `write_function` in write's place, for tests with faults.
absl::StatusOr<std::unique_ptr<TfRecordWriter>> OpenTfRecordWriterWith(
    const std::string& path, const TfRecordWriterOptions& options, WriteFunction write_function);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_WRITER_INTERNAL_H_
