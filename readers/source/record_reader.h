#ifndef MILLRACE_READERS_SOURCE_RECORD_READER_H_
#define MILLRACE_READERS_SOURCE_RECORD_READER_H_

#include <memory>

#include "readers/inflate/byte_source.h"
#include "readers/record_reader.h"

namespace millrace::readers {

// Cuts records out of `source`: OpenTfRecordReader without the opening, for tests with faults.
// `options.compression` is not looked at.
std::unique_ptr<RecordReader> MakeTfRecordReader(std::unique_ptr<ByteSource> source,
                                                 const TfRecordReaderOptions& options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SOURCE_RECORD_READER_H_
