#ifndef MILLRACE_READERS_CACHE_FOLDER_H_
#define MILLRACE_READERS_CACHE_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/unique_fd.h"

namespace millrace::readers {

// The folder of files that can be made again: indexes of shards, outcomes of filters. Immutable,
// thread-safe, and safe between processes: a file is made under a lock and renamed into place.
// Internal.
class CacheFolder {
 public:
  // `folder` empty: $XDG_CACHE_HOME/millrace, else ~/.cache/millrace, else there is none.
  explicit CacheFolder(const std::string& folder);

  bool exists() const { return !folder_.empty(); }
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }

  // The bytes of a whole file; nullopt when it cannot be read or has more than `max_bytes`.
  static std::optional<std::vector<std::byte>> Load(const std::string& path, uint64_t max_bytes);
  // Makes the folder where it is missing, waits for the lock of `path`, which nobody else takes
  // meanwhile, and holds it until the descriptor is closed, also by death. Not valid when the
  // folder cannot be used.
  UniqueFd Lock(const std::string& path) const;
  // Removes what processes that were killed were writing. What cannot be removed stays.
  void RemoveAbandoned() const;
  // Not synced: whoever reads the file has to check that it is whole.
  static absl::Status Store(const std::string& path, std::span<const std::byte> bytes);

 private:
  const std::string folder_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CACHE_FOLDER_H_
