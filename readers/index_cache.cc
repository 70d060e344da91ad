#include "readers/index_cache.h"

#include <filesystem>
#include <utility>

#include "readers/tfrecord_format.h"

namespace millrace::readers {

IndexCache::IndexCache(const std::string& folder) : folder_(folder) {}

std::optional<RecordIndex> IndexCache::Load(const std::string& file, const ShardStamp& stamp,
                                            uint64_t framed_bytes) {
  // An index has at most eight bytes per record, and a header.
  constexpr uint64_t kMostHeaderBytes = 4096;
  const auto bytes =
      CacheFolder::Load(file, kMostHeaderBytes + 8 * (framed_bytes / kFrameBytes + 1));
  if (!bytes.has_value()) return std::nullopt;
  auto index = DecodeIndex(*bytes, stamp);
  if (!index.ok() || index->framed_bytes() != framed_bytes) return std::nullopt;
  return std::move(index).value();
}

absl::StatusOr<RecordIndex> IndexCache::Get(const std::string& path, const ShardStamp& stamp,
                                            uint64_t framed_bytes, bool keep,
                                            const Build& build) const {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(path, error).lexically_normal().string();
  if (!folder_.exists() || error) return build();
  const std::string file = folder_.PathOf(IndexName(absolute));
  if (auto index = Load(file, stamp, framed_bytes)) return *std::move(index);

  const UniqueFd lock = folder_.Lock(file);
  if (lock.valid()) {  // whoever held it may have built the index meanwhile
    if (auto index = Load(file, stamp, framed_bytes)) return *std::move(index);
  }
  auto index = build();
  if (!index.ok() || !keep || !lock.valid()) return index;
  // A shard that changed under the walk gets no index on disk: the stamp would vouch for it.
  const auto after = StampOf(path);
  const bool unchanged =
      after.ok() && after->file_size == stamp.file_size && after->mtime_ns == stamp.mtime_ns;
  // After a crash a half-written index fails its checksum and is built again.
  if (unchanged) CacheFolder::Store(file, EncodeIndex(*index, stamp)).IgnoreError();
  return index;
}

}  // namespace millrace::readers
