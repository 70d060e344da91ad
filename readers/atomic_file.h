#ifndef MILLRACE_READERS_ATOMIC_FILE_H_
#define MILLRACE_READERS_ATOMIC_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/unique_fd.h"

namespace millrace::readers {

// write's signature: the seam through which tests inject ENOSPC, EINTR and short writes.
using WriteFunction = std::function<ssize_t(int fd, const void* data, size_t size)>;

// Writes a file that appears whole or not at all: to a hidden temporary in the same folder (a glob
// of `*` does not see it), renamed on Commit, removed otherwise. Thread-compatible. Internal.
class AtomicFile {
 public:
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path,
                                                            WriteFunction write_function = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Append(std::span<const std::byte> data);
  // Renames the file into place. With `sync` it and its folder are on the disk afterwards.
  absl::Status Commit(bool sync);

  const std::string& path() const { return path_; }

 private:
  AtomicFile(std::string path, std::string temporary, UniqueFd fd, WriteFunction write_function);

  const std::string path_;
  const std::string temporary_;
  UniqueFd fd_;
  WriteFunction write_;
  bool committed_ = false;
};

// Writes all of `data` to `fd`, going on after EINTR and short writes; `path` is for messages.
absl::Status WriteFully(int fd, std::span<const std::byte> data, const std::string& path,
                        const WriteFunction& write_function);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_ATOMIC_FILE_H_
