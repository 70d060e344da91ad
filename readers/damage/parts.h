#ifndef MILLRACE_READERS_DAMAGE_PARTS_H_
#define MILLRACE_READERS_DAMAGE_PARTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/record_error.h"
#include "readers/container.h"
#include "readers/inflate/byte_source.h"
#include "readers/record.h"

// Reads shards of other containers than TFRecord past damage. No other means of finding records are
// added (docs/decisions/0047-damage-handling-is-frozen.md).
//
// In none of them the end of a record is told but by the bytes in it. Damage is found where
// something does not fit, which may be behind the damage itself:
//   text    A line that is too long is damage.
//   csv     A row that is not one, or has another number of cells than the others, is damage. The
//           others are most of the hundred rows from the first good one; if these do not agree, the
//           row that names the columns counts. A quote that is not closed takes the rows behind it
//           along: only the first of these lines is given up. The row that names the columns is
//           damaged if it is not a row.
//   tar     Behind a damaged header the walk goes on at the next good one: on a block of 512 bytes,
//           or if there is none, at any byte with the magic of ustar. The member may have belonged
//           to the sample before it or to the one behind it: both are given up. An archive that
//           would have to be read more than 16 times to go on is given up there.
//   others  Records lie where the header and the size of the file tell. Of a file that is cut, or
//           longer than it should be, the records that lie whole in front of that place count. A
//           file of fixed length that does not fit is taken for cut, without a footer, unless the
//           footer is as long as a record. If it is longer than it should be, the footer and the
//           bytes behind it are taken for a record too if they are as many.
// If the stream of a compressed file is damaged, the walk goes on as damage/compressed.h says: in
// lines behind the next line break, in a tar at the next header with the magic of ustar. Of others
// all is lost from there. A record that ends at the damage is delivered as it is: nothing here has
// a checksum over the bytes that an inflater makes up before it notices damage.

namespace millrace::readers {

// A record, or a stretch of damage.
struct ShardPart {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t ordinal = 0;    // number of the part
  absl::Status damage;     // DATA_LOSS with RecordError
  bool is_header = false;  // true if the damaged part is the row that names the columns
  // The bytes of a record, while it is looked at: as it lies in the shard, and without its frame.
  std::string_view framed;
  std::string_view payload;
};
using OnPart = std::function<absl::Status(const ShardPart& part)>;

// The inflated bytes of a file.
struct InflatedShard {
  std::shared_ptr<const RandomAccessFile> file;
  Compression compression = Compression::kNone;  // compression of the file, never kAuto
  std::vector<LostBytes> lost = {};              // lost bytes of the stream, in order
};
absl::StatusOr<InflatedShard> OpenInflated(const std::string& path, Compression compression,
                                           const ContainerOptions& container);
// Whether `offset` lies behind lost bytes, so that other readers of the file, with access points of
// an earlier state of it, may find something else there.
bool IsBehindLost(const InflatedShard& shard, uint64_t offset);

// Calls `on_part` for all parts in order; the first that it does not return OK for ends the walk.
// Bytes before the first record that are no damage are in none. Bytes that are lost of the stream
// are damage, with the record that they lie in.
//   other  the file cannot be read
absl::Status WalkParts(const InflatedShard& shard, const ContainerOptions& container,
                       uint64_t max_record_bytes, const OnPart& on_part);

// Records of one size that follow each other.
struct RecordRun {
  uint64_t offset = 0;
  uint64_t record_bytes = 0;
  uint64_t count = 0;
};
using OnRun = std::function<absl::Status(const RecordRun& run)>;

// WalkParts for callers that want places only: of records whose places the header tells nothing is
// read, and they come as runs.
absl::Status WalkPlaces(const InflatedShard& shard, const ContainerOptions& container,
                        uint64_t max_record_bytes, const OnPart& on_part, const OnRun& on_run);

// The text of a status without the file and the place of its `error`. A view into the status.
std::string_view TextOfDamage(const absl::Status& status, const RecordError& error);

// An error that was met on the way to a record, with the record's file and place in front. If the
// status has a RecordError, it becomes `place`, with its own reason.
absl::Status ErrorAtRecord(const absl::Status& status, RecordError place);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DAMAGE_PARTS_H_
