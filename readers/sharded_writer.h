#ifndef MILLRACE_READERS_SHARDED_WRITER_H_
#define MILLRACE_READERS_SHARDED_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/record.h"

namespace millrace::readers {

struct ShardedWriterOptions {
  std::string output_prefix;  // shards are PREFIX-00000-of-00008.tfrecord; its folder must exist
  int num_shards = 1;         // 1 to 99999, at most one per record
  Compression compression = Compression::kNone;
  int compression_level = 6;  // zlib's or zstd's, 1 to 9
  bool overwrite = false;     // true to replace the shards of this prefix that exist

  absl::Status Validate() const;
};

// Writes records into a set of TFRecord shards, which appears whole or not at all, with
// PREFIX.manifest.json, as those of Convert do (readers/convert.h).
//
// Records are cut into shards as Convert cuts them: shard s of N gets the block from s * n / N up
// to (s + 1) * n / N of n records, so that reading the shards one after the other gives the records
// in their order. Since n is known at the end, records of several shards wait in one file of the
// hidden folder until Close: it needs as much room on the disk once more meanwhile, and no memory.
//
// Thread-compatible.
class ShardedWriter {
 public:
  // Called after each record that Close cuts off; true ends it.
  using Cancels = std::function<bool(int64_t done_records, int64_t total_records)>;

  //   INVALID_ARGUMENT  a bad option
  //   ALREADY_EXISTS    a shard of the prefix, in a set of any number of shards, exists and
  //                     `overwrite` is off
  //   NOT_FOUND, PERMISSION_DENIED, ...  nothing can be written to the folder of the prefix
  static absl::StatusOr<std::unique_ptr<ShardedWriter>> Open(const ShardedWriterOptions& options);
  virtual ~ShardedWriter() = default;  // without a Close that succeeded: leaves nothing behind

  // Appends a copy of a record. After an error every later call returns it too.
  //   RESOURCE_EXHAUSTED, ...  it cannot be written
  //   FAILED_PRECONDITION      Close was called
  virtual absl::Status Write(std::string_view record) = 0;

  // Cuts the shards and moves them into place. Call it once, whatever it returns; where it fails,
  // nothing has changed under the names of the shards.
  //   INVALID_ARGUMENT  more shards than records
  //   ALREADY_EXISTS    shards of the prefix have come meanwhile, and `overwrite` is off
  //   CANCELLED         `cancels` returned true
  //   other             the error of Write, or a file cannot be written
  virtual absl::Status Close(const Cancels& cancels = {}) = 0;

  virtual uint64_t num_records() const = 0;  // that were written
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SHARDED_WRITER_H_
