#include "readers/atomic_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::readers {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string TemporaryName(const std::string& path, int attempt) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  return absl::StrCat(path.substr(0, name), ".", path.substr(name), ".tmp-", ::getpid(), "-",
                      attempt);
}

absl::Status SyncFolder(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", folder);
  // Some file systems do not sync folders (EINVAL); the rename is then as durable as they make it.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return ErrnoStatus(errno, "fsync", folder);
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteFully(int fd, std::span<const std::byte> data, const std::string& path,
                        const WriteFunction& write_function) {
  constexpr size_t kMostPerCall = size_t{1} << 30;
  while (!data.empty()) {
    const size_t want = data.size() < kMostPerCall ? data.size() : kMostPerCall;
    const ssize_t done =
        write_function ? write_function(fd, data.data(), want) : ::write(fd, data.data(), want);
    if (done > 0) {
      data = data.subspan(static_cast<size_t>(done));
    } else if (done == 0 || errno != EINTR) {
      return ErrnoStatus(done == 0 ? EIO : errno, "write", path);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path,
                                                               WriteFunction write_function) {
  constexpr int kAttempts = 1000;  // names left over by a dead process of the same id, or in use
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string temporary = TemporaryName(path, attempt);
    UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd.valid()) {
      return std::unique_ptr<AtomicFile>(
          new AtomicFile(path, std::move(temporary), std::move(fd), std::move(write_function)));
    }
    if (errno != EEXIST) return ErrnoStatus(errno, "create", temporary);
  }
  return absl::AlreadyExistsError(
      absl::StrCat(TemporaryName(path, 0), " and ", kAttempts - 1, " more exist already"));
}

AtomicFile::AtomicFile(std::string path, std::string temporary, UniqueFd fd,
                       WriteFunction write_function)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      fd_(std::move(fd)),
      write_(std::move(write_function)) {}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(std::span<const std::byte> data) {
  return WriteFully(fd_.get(), data, path_, write_);
}

absl::Status AtomicFile::Commit(bool sync) {
  if (sync && ::fsync(fd_.get()) != 0) return ErrnoStatus(errno, "fsync", temporary_);
  if (::close(fd_.Release()) != 0 && errno != EINTR) {
    return ErrnoStatus(errno, "close", temporary_);
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, "rename", absl::StrCat(temporary_, " to ", path_));
  }
  committed_ = true;
  return sync ? SyncFolder(FolderOf(path_)) : absl::OkStatus();
}

}  // namespace millrace::readers
