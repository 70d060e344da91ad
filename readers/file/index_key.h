#ifndef MILLRACE_READERS_FILE_INDEX_KEY_H_
#define MILLRACE_READERS_FILE_INDEX_KEY_H_

#include <cstdint>
#include <string>

#include "readers/record.h"
#include "readers/shard_stamp.h"

namespace millrace::readers {

// What an index is made of: a shard, its state, and what it was read as.
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
