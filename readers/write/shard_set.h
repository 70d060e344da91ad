#ifndef MILLRACE_READERS_WRITE_SHARD_SET_H_
#define MILLRACE_READERS_WRITE_SHARD_SET_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/record.h"

// A set of shards PREFIX-00000-of-00008.tfrecord that appears whole or not at all, with a manifest
// PREFIX.manifest.json, and whose writing goes on where a killed process left it. Of other formats
// than TFRecord the names end otherwise; a shard may be a folder, which has no ending. A prefix
// holds one set, of any format.
//
// Shards are written to a hidden folder beside their place, locked while it is in use. Each is
// whole when its facts lie beside it. When all are, they are moved into place, the manifest last.
// A folder without a lock was left by a process that was killed: the next one that does the same
// job takes it over and writes only what is missing, any other removes it.

namespace millrace::readers {

// Facts about a shard that was written.
struct ShardFacts {
  uint64_t num_records = 0;
  uint64_t num_left_out = 0;                      // records that it might have held
  uint64_t file_bytes = 0;                        // on disk
  std::map<int64_t, uint64_t> records_per_label;  // empty where records have no label
};

// Endings of the names of shards. Empty: the shards are folders. A file may have the ending of its
// compression (CompressionEnding) behind it.
inline constexpr std::string_view kShardExtensions[] = {
    ".tfrecord", ".tfrecords", ".txt", ".bin", ".csv", ".jsonl", ".ndjson", ".tar", ""};

struct ShardSetOptions {
  std::string prefix;  // prefix of the shards' paths; its folder must exist
  int num_shards = 1;
  std::string extension = ".tfrecord";  // one of kShardExtensions, with a compression's or without
  // True if the shards of this prefix are replaced, in sets of any number of shards.
  bool overwrite = false;
  // Equal only for writers that write the same bytes to every shard: what is written, from what,
  // and how.
  uint64_t job = 0;
};

// Facts of the manifest beside those of the shards.
struct ManifestText {
  std::string format = "tfrecord";
  Compression compression = Compression::kNone;
  std::string source = {};    // what was read, for people
  std::string schema = {};    // the columns, as a flag says them; empty: the format needs none
  uint64_t record_bytes = 0;  // of records of fixed length; 0: the format has none
  std::vector<std::string> class_names = {};
};

// Checks the options of a set of shards that are the same for every writer.
//   INVALID_ARGUMENT  names the option
absl::Status CheckShardOutput(const std::string& output_prefix, int num_shards,
                              Compression compression, int compression_level);

// `path` without a relative part, as it stands in a job; a path that cannot be made so stays as it
// is.
std::string AbsolutePath(const std::string& path);

// Files in few words, for a manifest.
std::string SourceText(const std::vector<std::string>& files);

// Thread-compatible. Shards that were not committed go away with it.
class ShardSet {
 public:
  // The names that the shards will have, in order.
  static std::vector<std::string> Names(const std::string& prefix, int num_shards,
                                        std::string_view extension);

  // Whether shards could be written for the prefix now, asked before much work is done. The job
  // does not matter.
  //   ALREADY_EXISTS  shards of the prefix exist and `overwrite` is off, and no killed process has
  //                   left some of its own; a folder has the name of a shard
  static absl::Status Check(const ShardSetOptions& options);

  //   the errors of Check
  //   NOT_FOUND, PERMISSION_DENIED, ...  nothing can be written to the folder of `prefix`
  static absl::StatusOr<std::unique_ptr<ShardSet>> Begin(const ShardSetOptions& options);
  ~ShardSet();

  const std::vector<std::string>& files() const;
  // The facts of a shard that is whole already; nullopt: it is to be written to PathOf(shard).
  const std::optional<ShardFacts>& Written(size_t shard) const;
  std::string PathOf(size_t shard) const;
  // The hidden folder, for files that the writer needs meanwhile.
  std::string folder() const;
  // Leaves the folder where a killed process would leave it, for the next one that does this job.
  void Keep();
  // Says that the file at PathOf(shard) is whole; `facts` without its size.
  absl::Status Wrote(size_t shard, ShardFacts facts);
  // Moves all shards into place and writes the manifest. On failure everything is as it was.
  // REQUIRES: all shards are written.
  //   ALREADY_EXISTS  somebody else's shards have come meanwhile, and `overwrite` is off
  absl::Status Commit(const ManifestText& text);

 private:
  class Impl;
  explicit ShardSet(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_WRITE_SHARD_SET_H_
