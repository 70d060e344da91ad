#ifndef MILLRACE_READERS_SOURCE_INDEX_CACHE_H_
#define MILLRACE_READERS_SOURCE_INDEX_CACHE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancels.h"
#include "readers/cache_folder.h"
#include "readers/container/index_memory.h"
#include "readers/container/record_index.h"
#include "readers/file/index_key.h"
#include "readers/inflate/access_points.h"
#include "readers/record.h"
#include "readers/shard_stamp.h"

namespace millrace::readers {

// A shard whose index is asked for.
struct IndexedShard {
  std::string path;
  ShardStamp stamp;
  Compression compression = Compression::kNone;  // never kAuto
  FrameFormat format;                            // the frames of its container
  uint64_t shard_bytes = 0;                      // the (inflated) size
};

// The indexes and access points of shards in a CacheFolder. Immutable, thread-safe, and safe
// between processes. A folder that cannot be used costs speed, never an error.
class IndexCache {
 public:
  using Build = std::function<absl::StatusOr<ShardIndex>()>;

  // `folder` as CacheFolder takes it; where there is none, nothing is kept.
  // `cancels` ends a wait for another process that makes an index.
  explicit IndexCache(const std::string& folder, Cancels cancels = {});

  // A kept index that is on its way from the disk.
  struct Opened {
    std::shared_ptr<const RandomAccessFile> file;
    IndexKey key;
    FrameFormat format;
    uint64_t shard_bytes = 0;
  };

  // Begins to fetch the kept index and does not wait, so that a caller that opens several before it
  // reads the first waits for all of them at once. Nullopt when there is none.
  std::optional<Opened> Open(const IndexedShard& shard) const;
  // Reads it into `memory`; nullopt when it is not whole, or was made of another shard.
  static std::optional<ShardIndex> Read(const Opened& index,
                                        const std::shared_ptr<IndexMemory>& memory);

  // Reads the kept index too, but where there is no good one calls `build` (one process at a time)
  // and, with `keep`, keeps what it returns. The first one that is built also clears the folder of
  // what killed processes left there.
  absl::StatusOr<ShardIndex> FindOrBuild(const IndexedShard& shard,
                                         const std::shared_ptr<IndexMemory>& memory, bool keep,
                                         const Build& build) const;

  // Makes the file of points (EncodePoints) for a key.
  using MakePoints = std::function<absl::StatusOr<std::vector<std::byte>>(const IndexKey&)>;
  // How the kept file of points at a path is opened.
  using OpenPoints =
      std::function<absl::StatusOr<std::shared_ptr<const RandomAccessFile>>(const std::string&)>;
  // The same for the access points of a compressed shard, which are the same for every container:
  // only path, stamp and compression are looked at. Where they cannot be kept they are in memory.
  absl::StatusOr<AccessPoints> FindOrMakePoints(const IndexedShard& shard, const OpenPoints& open,
                                                const MakePoints& make) const;

 private:
  // Nullopt when the path is relative to a folder that is gone.
  std::optional<IndexKey> KeyOf(const IndexedShard& shard) const;
  // Keeps `bytes`, unless the shard changed while they were made: the stamp would vouch for it.
  static bool Store(const IndexedShard& shard, const std::string& file,
                    std::span<const std::byte> bytes);

  const CacheFolder folder_;
  const Cancels cancels_;
  const std::filesystem::path current_folder_;  // where relative paths begin; empty: it is gone
  mutable std::once_flag cleared_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SOURCE_INDEX_CACHE_H_
