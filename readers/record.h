#ifndef MILLRACE_READERS_RECORD_H_
#define MILLRACE_READERS_RECORD_H_

#include <cstdint>
#include <memory>
#include <string_view>

namespace millrace::readers {

// How a shard's bytes are compressed as a whole. kAuto looks at the first bytes of the file. Index
// files hold the numbers.
enum class Compression { kAuto = 0, kNone = 1, kGzip = 2, kZlib = 3, kZstd = 4 };

// The word of plans and flags: "auto", "none", "gzip", ...
std::string_view CompressionName(Compression compression);
// The usual ending of a file's name: ".gz", ".zlib", ".zst"; else "".
std::string_view CompressionEnding(Compression compression);
// `name` without such an ending, unless that is all of it.
std::string_view WithoutCompressionEnding(std::string_view name);

// The place of a record, without its payload. A value type.
struct RecordRef {
  uint32_t shard = 0;
  uint64_t ordinal = 0;  // number of the record in its shard, from 0
  uint64_t offset = 0;   // begin of the record's frame, in bytes from that of the inflated shard
  uint64_t length = 0;   // bytes of payload, or of the whole frame where only reading tells them
};

// A record and the handle that keeps its bytes alive.
struct Record {
  std::string_view payload;
  RecordRef ref;
  std::shared_ptr<const void> keep_alive;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_RECORD_H_
