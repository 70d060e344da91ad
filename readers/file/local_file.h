#ifndef MILLRACE_READERS_FILE_LOCAL_FILE_H_
#define MILLRACE_READERS_FILE_LOCAL_FILE_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/unique_fd.h"
#include "readers/open_file.h"

namespace millrace::readers {

// pread's signature: the seam through which tests inject EINTR, EIO and short reads.
using PreadFunction = std::function<ssize_t(int fd, void* out, size_t size, off_t offset)>;

// Errors that a disk or a server may recover from (EIO, EAGAIN, ESTALE, ETIMEDOUT) are retried.
struct ReadRetry {
  int attempts = 3;                       // tries of one read, the first included
  std::chrono::milliseconds backoff{50};  // before the second one, then twice as long each time
};

// Wraps an open file of `size` bytes; `path` is for messages. Uses the system's pread when none is
// given. With `leads`, reads in order go through a ReadFront.
std::shared_ptr<const RandomAccessFile> MakeLocalFile(UniqueFd fd, std::string path, uint64_t size,
                                                      PreadFunction pread_function = {},
                                                      ReadRetry retry = {}, bool leads = true);

// OpenFile of a path that is no URL.
absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenLocalFile(const std::string& path,
                                                                      const FileAccess& access);

// MakeLocalFile, read as `access` says where the system can.
std::shared_ptr<const RandomAccessFile> WithAccess(UniqueFd fd, std::string path, uint64_t size,
                                                   const FileAccess& access);

// Opens a local file that is soon read as a whole: starts to fetch it from the disk and does not
// wait for it.
absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenAndFetch(const std::string& path);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_LOCAL_FILE_H_
