#ifndef MILLRACE_READERS_LOCAL_FILE_H_
#define MILLRACE_READERS_LOCAL_FILE_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/io.h"
#include "base/unique_fd.h"

namespace millrace::readers {

// pread's signature: the seam through which tests inject EINTR, EIO and short reads.
using PreadFunction = std::function<ssize_t(int fd, void* out, size_t size, off_t offset)>;

// What a disk or a server may get over (EIO, EAGAIN, ESTALE, ETIMEDOUT) is tried again.
struct ReadRetry {
  int attempts = 3;                       // of one read, the first included
  std::chrono::milliseconds backoff{50};  // before the second one, then twice as long each time
};

// Wraps an open file of `size` bytes; `path` is for messages. The system's pread when none is
// given. With `leads` who reads in order does so through a ReadFront. Internal: OpenFile
// (record_source.h) is the public way.
std::shared_ptr<const RandomAccessFile> MakeLocalFile(UniqueFd fd, std::string path, uint64_t size,
                                                      PreadFunction pread_function = {},
                                                      ReadRetry retry = {}, bool leads = true);

// How a source reads its local files; the bytes are the same for every value.
enum class FileIo {
  kPread,   // through the page cache
  kMmap,    // the page cache itself, mapped; pages are fetched by the thread that reads
  kDirect,  // past the page cache, where the file system can (O_DIRECT)
};
struct FileAccess {
  FileIo io = FileIo::kPread;
  // Takes out of the page cache what a reader in order has left behind.
  bool drop_behind = false;
};

// MakeLocalFile, read in that way as far as the system can.
std::shared_ptr<const RandomAccessFile> WithAccess(UniqueFd fd, std::string path, uint64_t size,
                                                   const FileAccess& access);
// OpenFile for such a file; URLs are read as ever.
absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenWithAccess(const std::string& path,
                                                                       const FileAccess& access);

// OpenFile for a file that is soon read as a whole: begins to fetch it from the disk and does not
// wait for it.
absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenAndFetch(const std::string& path);

// Reads the whole of `out` at `offset`. A short read is DATA_LOSS.
absl::Status ReadFully(const RandomAccessFile& file, uint64_t offset, std::span<std::byte> out);

// Reads a whole file. One that is not regular (a pipe) is read to its end; a named pipe that nobody
// writes to is empty.
//   INVALID_ARGUMENT     it holds more than `max_bytes`
//   NOT_FOUND, other     it cannot be opened or read
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t max_bytes);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_LOCAL_FILE_H_
