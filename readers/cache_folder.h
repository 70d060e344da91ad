#ifndef MILLRACE_READERS_CACHE_FOLDER_H_
#define MILLRACE_READERS_CACHE_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/cancels.h"
#include "base/unique_fd.h"

namespace millrace::readers {

// The folder of files that can be made again: indexes of shards, outcomes of filters,
// plans of GPUs. Immutable,
// thread-safe, and safe between processes: a file is made under a lock and renamed into place.
class CacheFolder {
 public:
  // `folder` empty: $XDG_CACHE_HOME/millrace, else ~/.cache/millrace, else there is none.
  explicit CacheFolder(const std::string& folder);

  bool exists() const { return !folder_.empty(); }
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }

  // Returns the bytes of a whole file; nullopt if it cannot be read or has more than `max_bytes`.
  static std::optional<std::vector<std::byte>> Load(const std::string& path, uint64_t max_bytes);
  // Makes the folder if it is missing and waits for the lock of `path`. The lock is held until the
  // descriptor is closed, or the process dies. The descriptor is not valid if the folder cannot be
  // used, or if `cancels` ended the wait.
  UniqueFd Lock(const std::string& path, const Cancels& cancels) const;
  // Makes the folder if it is missing, and tries to write a file there.
  //   FAILED_PRECONDITION       there is no folder
  //   PERMISSION_DENIED, other  nothing can be kept in it
  absl::Status CheckUsable() const;
  // Removes the unfinished files of processes that were killed. Failures are ignored.
  void RemoveAbandoned() const;
  // Writes a file and renames it into place, without a sync: its reader must check that it is
  // whole.
  static absl::Status Store(const std::string& path, std::span<const std::byte> bytes);

 private:
  const std::string folder_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CACHE_FOLDER_H_
