#ifndef MILLRACE_READERS_SHARD_PARTS_H_
#define MILLRACE_READERS_SHARD_PARTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/container.h"
#include "readers/record.h"

// Reads shards of other containers than TFRecord past damage. Internal.
//
// None of them says where a record ends but by what is in it, so damage is found where something
// does not fit, which may be behind it:
//   text  lines; one that is too long is damage
//   csv   a row that is none, or has another number of cells than the first, is damage. A quote that
//         is not closed takes the rows behind it along: of several lines only the first is given up
//   tar   behind a header that is damaged it goes on at the next good one. The member may have
//         belonged to the sample before it or to that behind it: both are given up
//   others  records lie where the header and the size of the file say: nothing can be passed over
// What is behind damage is walked again from there, four times the file's size in all; then the rest
// is damage.

namespace millrace::readers {

// A record, or a stretch of damage.
struct ShardPart {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t ordinal = 0;  // of the part
  absl::Status damage;   // DATA_LOSS with RecordError
  // Of a record, while it is looked at: as it lies in the shard, and without its frame.
  std::string_view framed;
  std::string_view payload;
};
using OnPart = std::function<absl::Status(const ShardPart& part)>;

// The inflated bytes of a file.
struct InflatedShard {
  std::shared_ptr<const RandomAccessFile> file;
  Compression compression = Compression::kNone;  // what the file is, never kAuto
  absl::Status damage;                           // of the stream, behind these bytes
};
absl::StatusOr<InflatedShard> OpenInflated(const std::string& path, Compression compression,
                                           const ContainerOptions& container);

// Calls `on_part` for all parts in order; the first that it does not return OK for ends the walk.
// What lies before the first record, and is no damage, is in none. Where the stream is damaged the
// part that its bytes end in is damage.
//   other  the file cannot be read
absl::Status WalkParts(const InflatedShard& shard, const ContainerOptions& container,
                       uint64_t max_record_bytes, const OnPart& on_part);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SHARD_PARTS_H_
