#ifndef MILLRACE_READERS_KEPT_INDEX_H_
#define MILLRACE_READERS_KEPT_INDEX_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "readers/record_source.h"

namespace millrace::readers {

// Looks whether the next process will find the index of a shard of TFRecord. `path` is the shard's
// name as it was given to the `source`, which has its default options.
//   FAILED_PRECONDITION, PERMISSION_DENIED, ...  the index is not kept, and why
absl::Status CheckIndexKept(const std::string& path, const RecordSource& source, uint32_t shard);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_KEPT_INDEX_H_
