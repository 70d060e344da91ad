#ifndef MILLRACE_READERS_RECORD_WRITER_INTERNAL_H_
#define MILLRACE_READERS_RECORD_WRITER_INTERNAL_H_

#include <memory>
#include <string>

#include "readers/atomic_file.h"
#include "readers/record_writer.h"

namespace millrace::readers {

// TfRecordWriter::Open with `write_function` in write's place, for tests with faults.
absl::StatusOr<std::unique_ptr<TfRecordWriter>> OpenTfRecordWriterWith(
    const std::string& path, const TfRecordWriterOptions& options, WriteFunction write_function);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_WRITER_INTERNAL_H_
