#include "readers/file/index_key.h"

#include "absl/strings/str_cat.h"
#include "xxhash.h"

namespace millrace::readers {

IndexKey MakeIndexKey(const std::string& absolute_path, const ShardStamp& stamp,
                      Compression compression, uint64_t container) {
  const XXH128_hash_t hash =
      XXH3_128bits_withSeed(absolute_path.data(), absolute_path.size(), container);
  return {hash.high64, hash.low64, stamp, compression, container};
}

std::string IndexName(const IndexKey& key) {
  return absl::StrCat(absl::Hex(key.path_high, absl::kZeroPad16),
                      absl::Hex(key.path_low, absl::kZeroPad16), ".index");
}

}  // namespace millrace::readers
