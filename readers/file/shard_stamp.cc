#include "readers/shard_stamp.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/local_path.h"
#include "base/status.h"

namespace millrace::readers {

absl::StatusOr<ShardStamp> StampOf(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string local, LocalPath(path));
  struct stat info = {};
  if (::stat(local.c_str(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  return ShardStamp{static_cast<uint64_t>(info.st_size),
                    int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace millrace::readers
