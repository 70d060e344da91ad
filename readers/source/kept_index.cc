#include "readers/kept_index.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/cache_folder.h"
#include "readers/container/container.h"
#include "readers/container/detect.h"
#include "readers/open_file.h"
#include "readers/source/index_cache.h"

namespace millrace::readers {

absl::Status CheckIndexKept(const std::string& path, const RecordSource& source, uint32_t shard) {
  const std::string& shown = source.files()[shard];
  const ShardStamp stamp = source.stamp(shard).value_or(ShardStamp());
  if (!stamp.vouches()) {
    return absl::FailedPreconditionError(
        absl::StrCat(shown,
                     ": the server gives neither ETag nor Last-Modified, so that nobody could tell "
                     "whether a kept index is of the file as it is"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto file, OpenFile(path));
  MILLRACE_ASSIGN_OR_RETURN(const Compression compression, DetectCompression(*file));
  const auto container = MakeContainer({}, /*verify_crc=*/true);
  const IndexedShard wanted = {.path = path,
                               .stamp = stamp,
                               .compression = compression,
                               .format = container->format(),
                               .shard_bytes = source.file(shard)->size()};
  const auto kept = IndexCache("").Open(wanted);
  const bool is_kept =
      kept.has_value() && IndexCache::Read(*kept, std::make_shared<IndexMemory>()).has_value();
  if (is_kept) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CacheFolder("").CheckUsable());
  return absl::FailedPreconditionError(absl::StrCat(
      shown, ": the file changed while it was read, or its index could not be written to ",
      CacheFolder("").PathOf("")));
}

}  // namespace millrace::readers
