#ifndef MILLRACE_READERS_SOURCE_DALI_INDEX_H_
#define MILLRACE_READERS_SOURCE_DALI_INDEX_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/container/index_memory.h"
#include "readers/container/record_index.h"

namespace millrace::readers {

// Reads an index of a shard of `shard_bytes`. The frames that it lists rise and do not overlap;
// between them there may be records that it leaves out. Takes memory for what is good so far, at
// most as many records as the shard has room for.
//   INVALID_ARGUMENT  a line is not "OFFSET SIZE", or lists what cannot be a record of the shard:
//                     "PATH:LINE: why"
//   other             the index cannot be read, or there is no memory
absl::StatusOr<ShardIndex> ReadDaliIndex(const RandomAccessFile& file, uint64_t shard_bytes,
                                         uint64_t max_record_bytes,
                                         const std::shared_ptr<IndexMemory>& memory);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SOURCE_DALI_INDEX_H_
