#ifndef MILLRACE_READERS_INFLATE_INFLATED_FILE_H_
#define MILLRACE_READERS_INFLATE_INFLATED_FILE_H_

#include <memory>

#include "base/io.h"
#include "readers/inflate/access_points.h"
#include "readers/inflate/span_cache.h"

namespace millrace::readers {

// The inflated bytes of `file`, which is entered at `points`. A read inflates the spans that it
// needs, or waits for others to do it, and leaves them in `cache`; spans that are there are copied
// without waiting. Reads report
//   DATA_LOSS  with RecordError: the span is damaged, or is not what the points were made of. Other
//              spans can be read
//   other      `file` cannot be read
//
std::shared_ptr<const RandomAccessFile> MakeInflatedFile(
    std::shared_ptr<const RandomAccessFile> file, AccessPoints points,
    std::shared_ptr<SpanCache> cache);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INFLATE_INFLATED_FILE_H_
