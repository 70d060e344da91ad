#ifndef MILLRACE_BASE_ATOMIC_FILE_H_
#define MILLRACE_BASE_ATOMIC_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace millrace {

// write's signature: the seam through which tests inject ENOSPC, EINTR and short writes.
using WriteFunction = std::function<ssize_t(int fd, const void* data, size_t size)>;

// Whether a write replaces or keeps an existing file.
enum class Existing { kReplace, kKeep };

// Renames `from` to `to`.
//   ALREADY_EXISTS  `existing` is kKeep and `to` exists
absl::Status Rename(const std::string& from, const std::string& to, Existing existing);

// The error of a file that the user named and that could not be made, with `error_number`; says so
// if its folder is missing.
absl::Status CannotCreate(int error_number, const std::string& path);

// Checks that `path`, which is to be written, is no folder.
//   INVALID_ARGUMENT  it is one
absl::Status CheckIsNoFolder(const std::string& path);

// Takes the lock of an open file or folder, which tells other processes that it is in use. The lock
// ends with the last descriptor, so with the process. False if another has it, or the file system
// has no locks.
bool TakeUseLock(int fd);

// Removes `path`, a folder with all its contents, unless a process has its lock. Failures are
// ignored.
void RemoveIfAbandoned(const std::string& path);

// Writes a file that appears whole or not at all. The bytes go to a hidden temporary in the same
// folder (a glob of `*` does not see it), which Commit renames and the destructor removes. A
// process that is killed leaves it unlocked; TemporaryOf knows its name. Thread-compatible.
class AtomicFile {
 public:
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& name,
                                                            WriteFunction write_function = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Append(std::span<const std::byte> data);
  // Renames the file into place. With `sync` it and its folder are on the disk afterwards.
  //   ALREADY_EXISTS  `existing` is kKeep and there is a file in its place
  absl::Status Commit(bool sync, Existing existing = Existing::kReplace);

  const std::string& path() const { return path_; }

  // Removes the temporaries of the file `name` whose processes were killed. Failures are ignored.
  static void RemoveAbandoned(const std::string& name);
  // The same of all files of a folder whose names `is_wanted`. Returns why the folder could not be
  // listed; other failures are ignored.
  static std::error_code RemoveAbandonedIn(
      const std::string& folder, const std::function<bool(const std::string& name)>& is_wanted);

  // Returns the name of the file whose temporary has this name; empty if it is no such name.
  static std::string TemporaryOf(std::string_view name);

 private:
  AtomicFile(std::string path, std::string temporary, UniqueFd fd, WriteFunction write_function);

  const std::string path_;
  const std::string temporary_;
  UniqueFd fd_;
  WriteFunction write_;
  bool committed_ = false;  // true if the file has its name
};

// Writes all of `data` to `fd`, going on after EINTR and short writes; `path` is for messages.
absl::Status WriteFully(int fd, std::span<const std::byte> data, const std::string& path,
                        const WriteFunction& write_function);

}  // namespace millrace

#endif  // MILLRACE_BASE_ATOMIC_FILE_H_
