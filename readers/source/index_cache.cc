#include "readers/source/index_cache.h"

#include <filesystem>
#include <utility>

#include "base/status.h"
#include "readers/file/index_key.h"
#include "readers/file/local_file.h"
#include "readers/http_options.h"
#include "readers/shard_stamp.h"

namespace millrace::readers {
namespace {

// Empty when the process is in a folder that is gone.
std::filesystem::path CurrentFolder() {
  std::error_code error;
  return std::filesystem::current_path(error);
}

// True for the absolute names that are their own lexically_normal(), but for some of hidden files.
bool IsNormal(std::string_view path) {
  return path.starts_with('/') && path.find("//") == path.npos && path.find("/.") == path.npos;
}

}  // namespace

IndexCache::IndexCache(const std::string& folder, Cancels cancels)
    : folder_(folder), cancels_(std::move(cancels)), current_folder_(CurrentFolder()) {}

std::optional<IndexKey> IndexCache::KeyOf(const IndexedShard& shard) const {
  const auto key = [&](const std::string& absolute_path) {
    return MakeIndexKey(absolute_path, shard.stamp, shard.compression, shard.format.key);
  };
  if (!shard.stamp.vouches()) return std::nullopt;
  if (IsNormal(shard.path) || IsUrl(shard.path)) return key(shard.path);
  if (!shard.path.starts_with('/') && current_folder_.empty()) return std::nullopt;
  return key((current_folder_ / shard.path).lexically_normal().string());
}

std::optional<IndexCache::Opened> IndexCache::Open(const IndexedShard& shard) const {
  const std::optional<IndexKey> key = KeyOf(shard);
  if (!folder_.exists() || !key.has_value()) return std::nullopt;
  auto file = OpenAndFetch(folder_.PathOf(IndexName(*key)));
  if (!file.ok()) return std::nullopt;
  return Opened{*std::move(file), *key, shard.format, shard.shard_bytes};
}

std::optional<ShardIndex> IndexCache::Read(const Opened& index,
                                           const std::shared_ptr<IndexMemory>& memory) {
  auto read = ReadIndex(*index.file, index.key, index.format, index.shard_bytes, memory);
  if (!read.ok()) return std::nullopt;
  return *std::move(read);
}

absl::StatusOr<ShardIndex> IndexCache::FindOrBuild(const IndexedShard& shard,
                                                   const std::shared_ptr<IndexMemory>& memory,
                                                   bool keep, const Build& build) const {
  const std::optional<IndexKey> key = KeyOf(shard);
  if (!folder_.exists() || !key.has_value()) return build();
  const auto find = [&]() -> std::optional<ShardIndex> {
    const std::optional<Opened> kept = Open(shard);
    return kept.has_value() ? Read(*kept, memory) : std::nullopt;
  };
  if (auto index = find()) return *std::move(index);

  const std::string file = folder_.PathOf(IndexName(*key));
  const UniqueFd lock = folder_.Lock(file, cancels_);
  if (lock.valid()) {  // the process that held it may have built the index meanwhile
    if (auto index = find()) return *std::move(index);
  }
  std::call_once(cleared_, [this] { folder_.RemoveAbandoned(); });
  auto index = build();
  if (index.ok() && keep && lock.valid()) Store(shard, file, EncodeIndex(*index, *key));
  return index;
}

absl::StatusOr<AccessPoints> IndexCache::FindOrMakePoints(const IndexedShard& shard,
                                                          const OpenPoints& open,
                                                          const MakePoints& make) const {
  const std::optional<IndexKey> key = KeyOf(shard);
  const auto in_memory = [&](std::vector<std::byte> bytes, const IndexKey& made_for) {
    return ReadPoints(MakeMemoryFile(std::move(bytes), shard.path), made_for);
  };
  if (!folder_.exists() || !key.has_value()) {
    const IndexKey unnamed =
        MakeIndexKey(shard.path, shard.stamp, shard.compression, shard.format.key);
    MILLRACE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, make(unnamed));
    return in_memory(std::move(bytes), unnamed);
  }
  const std::string file = folder_.PathOf(PointsName(*key));
  const auto find = [&]() -> absl::StatusOr<AccessPoints> {
    MILLRACE_ASSIGN_OR_RETURN(auto kept, open(file));
    return ReadPoints(std::move(kept), *key);
  };
  if (auto points = find(); points.ok()) return points;

  const UniqueFd lock = folder_.Lock(file, cancels_);
  if (lock.valid()) {  // the process that held it may have made them meanwhile
    if (auto points = find(); points.ok()) return points;
  }
  std::call_once(cleared_, [this] { folder_.RemoveAbandoned(); });
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, make(*key));
  if (lock.valid() && Store(shard, file, bytes)) {
    if (auto points = find(); points.ok()) return points;
  }
  return in_memory(std::move(bytes), *key);
}

bool IndexCache::Store(const IndexedShard& shard, const std::string& file,
                       std::span<const std::byte> bytes) {
  // A shard that changed under the walk gets no index on disk: the stamp would vouch for it.
  // Behind a URL every read was of the stamp's version.
  const auto unchanged = [&] {
    const auto after = StampOf(shard.path);
    return after.ok() && *after == shard.stamp;
  };
  if (!IsUrl(shard.path) && !unchanged()) return false;
  // After a crash a half-written file fails its checksum and is made again.
  return CacheFolder::Store(file, bytes).ok();
}

}  // namespace millrace::readers
