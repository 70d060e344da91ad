#ifndef MILLRACE_READERS_HTTP_OPEN_FILES_H_
#define MILLRACE_READERS_HTTP_OPEN_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/mutex.h"
#include "readers/open_file.h"

// The files behind a RecordSource.

namespace millrace::readers {

// Keeps at most `max_open` of the files it made open: a data set may have more shards than a
// process may have descriptors. Thread-safe; the files share ownership of it.
class OpenFiles : public std::enable_shared_from_this<OpenFiles> {
 public:
  explicit OpenFiles(size_t max_open, FileAccess access = {})
      : max_open_(max_open), access_(access) {}
  // Half of the descriptors that this process may have.
  static size_t DefaultMaxOpen();

  // Opens `path` as OpenFile does; its descriptor comes and goes afterwards.
  absl::StatusOr<std::shared_ptr<const RandomAccessFile>> Open(const std::string& path);
  // A file of `size` bytes that is opened when it is first read.
  std::shared_ptr<const RandomAccessFile> OpenLater(const std::string& path, uint64_t size);

  // For the files: the descriptor of slot `slot`, opened again if it was closed.
  absl::StatusOr<std::shared_ptr<const RandomAccessFile>> Get(size_t slot, const std::string& path);
  // The same without opening: nullptr when it is closed.
  std::shared_ptr<const RandomAccessFile> GetIfOpen(size_t slot);

 private:
  struct Slot {
    std::shared_ptr<const RandomAccessFile> file;  // null: closed
    uint64_t last_used = 0;
  };

  size_t AddSlot();
  void CloseOldest() MILLRACE_REQUIRES(mu_);

  const size_t max_open_;
  const FileAccess access_;
  Mutex mu_;
  std::vector<Slot> slots_ MILLRACE_GUARDED_BY(mu_);
  size_t num_open_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t clock_ MILLRACE_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_HTTP_OPEN_FILES_H_
