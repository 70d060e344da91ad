#ifndef MILLRACE_READERS_DAMAGE_TFRECORD_H_
#define MILLRACE_READERS_DAMAGE_TFRECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/record_error.h"

// Walks the frames of a plain TFRecord file past damage.
//
// Where a header is not what it should be, nothing says how long its record is: the walk goes on at
// the next offset where a header with a good CRC begins whose payload has a good CRC too. If the
// record before fails its own CRC, bytes are missing in it, or there are more: then the search
// begins in that record, which may have swallowed the beginning of the next. The bytes between are
// one stretch.
//
// At any offset of noise a length below the file's rest is rare (2^-30 or so), so the search costs
// about a pass over the bytes. Bytes that were made to look like headers could make it read
// payloads again and again: it reads at most four times the file's size of them, and takes what
// lies behind for damage.

namespace millrace::readers {

// Part of a file, from one record to the next.
struct Stretch {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // True if its header is good and its frame is all of it; its payload was not looked at.
  bool framed = false;
  RecordErrorReason reason = RecordErrorReason::kUnknown;  // the fault, if it is not framed
};

// Thread-compatible.
class ResyncWalk {
 public:
  // Borrows the file. Longer records are damage.
  ResyncWalk(const RandomAccessFile& file, uint64_t max_record_bytes);

  // The next stretch; together they make up the file.
  //   nullopt  the end of the file
  //   other    the file cannot be read
  absl::StatusOr<std::optional<Stretch>> Next();

 private:
  absl::StatusOr<Stretch> Look();
  absl::Status FindEnd(Stretch* stretch);
  absl::StatusOr<bool> IsFrame(uint64_t begin, uint64_t end);
  absl::StatusOr<uint64_t> FindFrame(uint64_t from);
  absl::StatusOr<bool> PayloadOk(uint64_t offset, uint64_t length);

  const RandomAccessFile& file_;
  const uint64_t max_length_;
  uint64_t offset_ = 0;             // begin of the bytes that were not looked at
  std::optional<Stretch> pending_;  // looked at, and not handed out
  uint64_t check_bytes_;            // bytes of payloads that may still be read
  std::vector<std::byte> buffer_;
};

// Replaces `begins` by where the stretches of a file begin that are at least kFrameBytes long, and
// the end of the last one. A shorter one belongs to that before it, the first to the next.
//   DATA_LOSS  the file has none
//   other      it cannot be read
absl::Status ResyncRecords(const RandomAccessFile& file, uint64_t max_record_bytes,
                           std::vector<uint64_t>& begins);

// Whether the record of `length` bytes that is framed at `offset` has a good payload, and what it
// is.
//   DATA_LOSS  its CRC does not match; `payload` holds it all the same
//   other      the file cannot be read
absl::Status ReadFramedPayload(const RandomAccessFile& file, uint64_t offset, uint64_t length,
                               std::vector<std::byte>* payload);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DAMAGE_TFRECORD_H_
