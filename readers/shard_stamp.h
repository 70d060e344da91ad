#ifndef MILLRACE_READERS_SHARD_STAMP_H_
#define MILLRACE_READERS_SHARD_STAMP_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace millrace::readers {

// The state of a shard that an index was made for; another size or time makes the index stale. Of a
// URL the time is a hash of its ETag (or Last-Modified).
struct ShardStamp {
  static constexpr int64_t kNoTime = INT64_MIN;  // the time of a URL with neither

  uint64_t file_size = 0;
  int64_t mtime_ns = 0;
  // False: another content may have the same stamp, so nothing is kept for it.
  bool vouches() const { return mtime_ns != kNoTime; }
  bool operator==(const ShardStamp&) const = default;
};

// Reads size and modification time of the local file `path`.
absl::StatusOr<ShardStamp> StampOf(const std::string& path);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SHARD_STAMP_H_
