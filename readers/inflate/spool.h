#ifndef MILLRACE_READERS_INFLATE_SPOOL_H_
#define MILLRACE_READERS_INFLATE_SPOOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/inflate/byte_source.h"

namespace millrace::readers {

// An unlinked temporary file in $TMPDIR (or /tmp) that takes inflated shards one after the other.
// Thread-compatible; the shards handed out are thread-safe and keep the file alive.
class InflateSpool {
 public:
  struct Inflated {
    std::shared_ptr<const RandomAccessFile> file;  // path() is the compressed shard's
    absl::Status damage;  // DATA_LOSS with RecordError: `file` holds what came before it
    std::vector<LostBytes> lost;
  };

  // Takes all of `source`: damage that it reports becomes `damage`, or is in its `lost`.
  //   RESOURCE_EXHAUSTED, ...  the temporary file cannot be written
  absl::StatusOr<Inflated> Add(std::unique_ptr<ByteSource> source);

 private:
  absl::Status Prepare();

  std::string folder_;
  int fd_ = -1;  // owned by file_
  std::shared_ptr<const RandomAccessFile> file_;
  uint64_t size_ = 0;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INFLATE_SPOOL_H_
