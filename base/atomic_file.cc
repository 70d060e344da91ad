#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/local_path.h"
#include "base/status.h"

namespace millrace {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

constexpr char kTemporaryPart[] = ".tmp-";

std::string TemporaryName(const std::string& path, int attempt) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  return absl::StrCat(path.substr(0, name), ".", path.substr(name), kTemporaryPart, ::getpid(), "-",
                      attempt);
}

// For file systems whose rename replaces an existing file: a link never does. Where there are no
// links either, a file that appears between the look and the rename is replaced.
int LinkOrLook(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return ::unlink(from.c_str()) == 0 ? 0 : errno;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  struct stat info = {};
  if (::lstat(to.c_str(), &info) == 0) return EEXIST;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int RenameKeeping(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  return errno == EINVAL || errno == ENOSYS ? LinkOrLook(from, to) : errno;
}

// Reports what only a close does (a full disk, on some file systems). The lock stays with `fd`.
absl::Status CloseDuplicate(int fd, const std::string& path) {
  const int duplicate = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) return ErrnoStatus(errno, "dup", path);
  if (::close(duplicate) != 0 && errno != EINTR) return ErrnoStatus(errno, "close", path);
  return absl::OkStatus();
}

// Locks a temporary that was just made. False if another process took it for abandoned before that,
// and has removed it or will.
bool LockTemporary(int fd) {
  if (!TakeUseLock(fd) && errno == EWOULDBLOCK) return false;
  struct stat info = {};
  return ::fstat(fd, &info) != 0 || info.st_nlink > 0;
}

// True if `path` names what is open.
bool Names(const std::string& path, int fd) {
  struct stat named = {};
  struct stat opened = {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

absl::Status SyncFolder(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", folder);
  // Some file systems do not sync folders (EINVAL); the rename is then as durable as they make it.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return ErrnoStatus(errno, "fsync", folder);
  return absl::OkStatus();
}

}  // namespace

absl::Status Rename(const std::string& from, const std::string& to, Existing existing) {
  int error = 0;
  if (existing == Existing::kKeep) {
    error = RenameKeeping(from, to);
  } else if (std::rename(from.c_str(), to.c_str()) != 0) {
    error = errno;
  }
  return error == 0 ? absl::OkStatus()
                    : ErrnoStatus(error, "rename", absl::StrCat(from, " to ", to));
}

bool TakeUseLock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

void RemoveIfAbandoned(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid() || !TakeUseLock(fd.get())) return;
  // Between the two the owner may have renamed it, and have made another of the same name.
  if (!Names(path, fd.get())) return;
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

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

absl::Status CannotCreate(int error_number, const std::string& path) {
  std::error_code ignored;
  const std::string folder = FolderOf(path);
  const bool lacks_folder = error_number == ENOENT && !std::filesystem::exists(folder, ignored);
  return ErrnoStatus(error_number,
                     lacks_folder ? absl::StrCat("create: there is no folder ", folder) : "create",
                     path);
}

absl::Status CheckIsNoFolder(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": it is a folder; name a file"));
}

void AtomicFile::RemoveAbandoned(const std::string& name) {
  const absl::StatusOr<std::string> path = LocalPath(name);
  if (!path.ok()) return;
  const std::string own = std::filesystem::path(*path).filename().string();
  RemoveAbandonedIn(FolderOf(*path), [&own](const std::string& of) { return of == own; });
}

std::error_code AtomicFile::RemoveAbandonedIn(
    const std::string& folder, const std::function<bool(const std::string& name)>& is_wanted) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string of = TemporaryOf(entries->path().filename().string());
    if (!of.empty() && is_wanted(of)) RemoveIfAbandoned(entries->path().string());
  }
  return error;
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& name,
                                                               WriteFunction write_function) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string path, LocalPath(name));
  constexpr int kAttempts = 1000;  // names left over by a dead process of the same id, or in use
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string temporary = TemporaryName(path, attempt);
    UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd.valid()) {
      if (!LockTemporary(fd.get())) continue;
      return std::unique_ptr<AtomicFile>(
          new AtomicFile(path, std::move(temporary), std::move(fd), std::move(write_function)));
    }
    if (errno != EEXIST) return CannotCreate(errno, path);
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

absl::Status AtomicFile::Commit(bool sync, Existing existing) {
  if (sync && ::fsync(fd_.get()) != 0) return ErrnoStatus(errno, "fsync", temporary_);
  MILLRACE_RETURN_IF_ERROR(CloseDuplicate(fd_.get(), temporary_));
  MILLRACE_RETURN_IF_ERROR(Rename(temporary_, path_, existing));
  committed_ = true;
  fd_.Reset();
  return sync ? SyncFolder(FolderOf(path_)) : absl::OkStatus();
}

std::string AtomicFile::TemporaryOf(std::string_view name) {
  const size_t part = name.rfind(kTemporaryPart);
  if (!name.starts_with('.') || part == std::string_view::npos || part == 0) return "";
  return std::string(name.substr(1, part - 1));
}

}  // namespace millrace
