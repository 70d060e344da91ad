#ifndef MILLRACE_READERS_FILE_INDEX_KEY_H_
#define MILLRACE_READERS_FILE_INDEX_KEY_H_

#include <cstdint>
#include <string>

#include "readers/record.h"
#include "readers/shard_stamp.h"

namespace millrace::readers {

// The key of an index: a shard, its state, and the compression and container it was read with.
struct IndexKey {
  uint64_t path_high = 0;  // xxh3-128 of the absolute path, the container being the seed
  uint64_t path_low = 0;
  ShardStamp stamp;
  Compression compression = Compression::kNone;  // never kAuto
  uint64_t container = 0;                        // FrameFormat::key
  bool operator==(const IndexKey&) const = default;
};
IndexKey MakeIndexKey(const std::string& absolute_path, const ShardStamp& stamp,
                      Compression compression, uint64_t container);
// The name of its file within the folder of indexes.
std::string IndexName(const IndexKey& key);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_INDEX_KEY_H_
