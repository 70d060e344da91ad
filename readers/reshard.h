#ifndef MILLRACE_READERS_RESHARD_H_
#define MILLRACE_READERS_RESHARD_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/record.h"

namespace millrace::readers {

struct ReshardOptions {
  std::vector<std::string> files;  // TFRecord shards in their order (ExpandFiles)
  Compression input_compression = Compression::kAuto;
  uint64_t max_record_bytes = uint64_t{1} << 30;

  std::string output_prefix;  // shards are PREFIX-00000-of-00008.tfrecord; its folder must exist
  int num_shards = 1;         // 1 to 99999, at most one per record
  // Number of records to keep, drawn without replacement by `seed`; unset: all. At most as many as
  // there are.
  std::optional<uint64_t> sample_records;
  bool shuffle = false;  // true to shuffle by `seed` (base/permutation.h); else the order is kept
  uint64_t seed = 0;
  Compression compression = Compression::kNone;
  int compression_level = 6;  // zlib's 1 to 9
  bool overwrite = false;     // true to replace the shards of this prefix that exist

  // performance only: results are the same for every value
  std::string index_folder;  // see RecordSourceOptions
  int threads = 1;           // shards indexed at once
  // As RecordSourceOptions::progress, while shards are indexed.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> index_progress;

  absl::Status Validate() const;
};

struct ReshardReport {
  std::vector<std::string> files;  // the shards, in order
  uint64_t num_records = 0;
  uint64_t file_bytes = 0;  // size of all shards on disk
};

// Called now and then with the number of records written and the number of all.
using ReshardProgress = std::function<void(int64_t done_records, int64_t total_records)>;

// Copies records of TFRecord shards into another set of shards: splits, merges, shuffles, samples.
// Payloads pass through unchanged, each checked by its CRC.
//
// Shard s of N begins with the first record that begins at or behind s/N of all bytes (frames,
// before compression) and has at least one record, so shards differ in size by about one record.
// Read one after the other they give the order back. The same options and input give the same
// bytes. The shards appear all at once, with a manifest, and after a kill the same call continues,
// as Convert does.
//   INVALID_ARGUMENT  a bad option; more shards or sampled records than there are
//   ALREADY_EXISTS    a shard of the prefix exists and `overwrite` is off
//   DATA_LOSS, ...    the input is damaged (RecordError), or a file cannot be written
absl::StatusOr<ReshardReport> Reshard(const ReshardOptions& options,
                                      const ReshardProgress& progress = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RESHARD_H_
