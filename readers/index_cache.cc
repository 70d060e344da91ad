#include "readers/index_cache.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "readers/atomic_file.h"
#include "readers/local_file.h"
#include "readers/record_source.h"

namespace millrace::readers {
namespace {

std::string DefaultFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/millrace";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/millrace";
  return "";
}

// Waits for the lock file `path` and holds it until the descriptor is closed, also by death.
UniqueFd Lock(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.valid()) return fd;
  int result = 0;
  do {
    result = ::flock(fd.get(), LOCK_EX);
  } while (result != 0 && errno == EINTR);
  if (result != 0) fd.Reset();
  return fd;
}

absl::Status Store(const std::string& file, std::span<const std::byte> bytes) {
  auto out = AtomicFile::Create(file);
  if (!out.ok()) return out.status();
  const absl::Status status = (*out)->Append(bytes);
  // Not synced: after a crash a half-written index fails its checksum and is built again.
  return status.ok() ? (*out)->Commit(/*sync=*/false) : status;
}

}  // namespace

IndexCache::IndexCache(const std::string& folder)
    : folder_(folder.empty() ? DefaultFolder() : folder) {}

std::optional<RecordIndex> IndexCache::Load(const std::string& file, const ShardStamp& stamp,
                                            uint64_t framed_bytes) {
  const auto opened = OpenFile(file);
  if (!opened.ok()) return std::nullopt;
  std::vector<std::byte> bytes((*opened)->size());
  if (!ReadFully(**opened, 0, bytes).ok()) return std::nullopt;
  auto index = DecodeIndex(bytes, stamp);
  if (!index.ok() || index->framed_bytes() != framed_bytes) return std::nullopt;
  return std::move(index).value();
}

absl::StatusOr<RecordIndex> IndexCache::Get(const std::string& path, const ShardStamp& stamp,
                                            uint64_t framed_bytes, bool keep,
                                            const Build& build) const {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(path, error).lexically_normal().string();
  if (folder_.empty() || error) return build();
  const std::string file = folder_ + "/" + IndexName(absolute);
  if (auto index = Load(file, stamp, framed_bytes)) return *std::move(index);

  std::filesystem::create_directories(folder_, error);
  const UniqueFd lock = Lock(file + ".lock");
  if (lock.valid()) {  // whoever held it may have built the index meanwhile
    if (auto index = Load(file, stamp, framed_bytes)) return *std::move(index);
  }
  auto index = build();
  if (!index.ok() || !keep || !lock.valid()) return index;
  // A shard that changed under the walk gets no index on disk: the stamp would vouch for it.
  const auto after = StampOf(path);
  const bool unchanged =
      after.ok() && after->file_size == stamp.file_size && after->mtime_ns == stamp.mtime_ns;
  if (unchanged) Store(file, EncodeIndex(*index, stamp)).IgnoreError();
  return index;
}

}  // namespace millrace::readers
