#include "readers/shard_stamp.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/status.h"

namespace millrace::readers {

absl::StatusOr<ShardStamp> StampOf(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  return ShardStamp{static_cast<uint64_t>(info.st_size),
                    int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace millrace::readers
