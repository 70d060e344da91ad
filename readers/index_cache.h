#ifndef MILLRACE_READERS_INDEX_CACHE_H_
#define MILLRACE_READERS_INDEX_CACHE_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "readers/cache_folder.h"
#include "readers/record_index.h"

namespace millrace::readers {

// The indexes of shards in a CacheFolder. Immutable, thread-safe, and safe between processes. A
// folder that cannot be used costs speed, never an error. Internal.
class IndexCache {
 public:
  using Build = std::function<absl::StatusOr<RecordIndex>()>;

  // `folder` as CacheFolder takes it; where there is none, nothing is kept.
  explicit IndexCache(const std::string& folder);

  // Returns the kept index of the shard at `path` if it is whole, made for `stamp` and frames
  // `framed_bytes` bytes; otherwise calls `build` (one process at a time) and, with `keep`, keeps
  // what it returns.
  absl::StatusOr<RecordIndex> Get(const std::string& path, const ShardStamp& stamp,
                                  uint64_t framed_bytes, bool keep, const Build& build) const;

 private:
  static std::optional<RecordIndex> Load(const std::string& file, const ShardStamp& stamp,
                                         uint64_t framed_bytes);

  const CacheFolder folder_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INDEX_CACHE_H_
