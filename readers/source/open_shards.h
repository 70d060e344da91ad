#ifndef MILLRACE_READERS_SOURCE_OPEN_SHARDS_H_
#define MILLRACE_READERS_SOURCE_OPEN_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/container/container.h"
#include "readers/container/record_index.h"
#include "readers/damage/parts_index.h"
#include "readers/http/expected_reads.h"
#include "readers/http/file.h"
#include "readers/inflate/byte_source.h"
#include "readers/record_source.h"
#include "readers/shard_stamp.h"

namespace millrace::readers {

struct Shard {
  std::shared_ptr<const RandomAccessFile> file;  // inflated; null only while shards are opened
  RecordIndex index;
  uint64_t file_size = 0;  // as it lies on disk
  ShardStamp stamp;        // from before it was opened
  uint64_t lengths_digest = 0;
  uint64_t point_bytes = 0;  // memory of the access points
  uint64_t num_spans = 0;    // spans at which it is entered
  // True if the framing of a TFRecord shard is lost: some records are stretches of damage.
  bool resynced = false;
  DamagedParts damaged;         // records that are stretches of damage, of another container
  std::vector<LostBytes> lost;  // with resync: the bytes that could not be inflated
  std::string dali_index;       // the .idx that lists its records; empty: it was walked
  // Its place in ExpectedReads; null if its records are not fetched by themselves.
  const FetchedFile* fetched = nullptr;
};

struct OpenedShards {
  std::vector<Shard> shards;  // one for each file
  std::optional<SpanFacts> spans;
  std::optional<FetchFacts> fetches;
  std::shared_ptr<HttpFiles> http;  // null: no file is a URL
  size_t block_bytes = 0;           // the most memory that the files keep
};

// Opens the shards of a source. Blocks while indexes are made.
//   the errors of RecordSource::Open
absl::StatusOr<OpenedShards> OpenShards(const std::vector<std::string>& files,
                                        const Container& container,
                                        const RecordSourceOptions& options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SOURCE_OPEN_SHARDS_H_
