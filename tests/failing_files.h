#ifndef MILLRACE_TESTS_FAILING_FILES_H_
#define MILLRACE_TESTS_FAILING_FILES_H_

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

// Calls of the system that fail for one path, as a disk, a server or the rights of a file have
// them. A program that includes this, in one file, has such calls of its own; they hold for
// libraries too.

namespace millrace {

// The calls of which one fails.
enum class Failing {
  kLook,  // nothing can be said of the name: stat, and what opens it
  kOpen,  // what opens it
  kRead,  // what reads its bytes, or the names in a folder
};

struct FailingFile {
  Failing call = Failing::kOpen;
  int error_number = 0;
  std::string path;
  off_t from = 0;  // reads that end at or before this offset do not fail
};

// The file that fails; null: none. Set while no other thread works on files.
inline std::atomic<const FailingFile*> failing_file = nullptr;

// Makes a file fail for its life.
class WhileFailing {
 public:
  explicit WhileFailing(FailingFile file) : file_(std::move(file)) { failing_file = &file_; }
  ~WhileFailing() { failing_file = nullptr; }
  WhileFailing(const WhileFailing&) = delete;
  WhileFailing& operator=(const WhileFailing&) = delete;

 private:
  const FailingFile file_;
};

namespace failing {

// True, with errno set, if this call of `path` fails.
inline bool Fails(Failing call, std::string_view path) {
  const FailingFile* const file = failing_file;
  if (file == nullptr || path != file->path) return false;
  const bool fails = call == file->call || (call == Failing::kOpen && file->call == Failing::kLook);
  if (fails) errno = file->error_number;
  return fails;
}

inline bool ReadFails(int fd, off_t end) {
  const FailingFile* const file = failing_file;
  if (file == nullptr || file->call != Failing::kRead || end <= file->from) return false;
  char path[PATH_MAX];
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  // The system's name of the file has no doubled slashes.
  return size > 0 &&
         std::filesystem::path(file->path).lexically_normal() ==
             std::string_view(path, static_cast<size_t>(size)) &&
         Fails(Failing::kRead, file->path);
}

// The system's own function.
template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

inline mode_t ModeOf(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(arguments, mode_t) : 0;
}

}  // namespace failing
}  // namespace millrace

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const next = millrace::failing::Next<int(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = millrace::failing::ModeOf(flags, arguments);
  va_end(arguments);
  return millrace::failing::Fails(millrace::Failing::kOpen, path) ? -1 : next(path, flags, mode);
}

// Of paths from the root, and from the current folder.
int openat(int folder, const char* path, int flags, ...) {
  static auto* const next = millrace::failing::Next<int(int, const char*, int, ...)>("openat");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = millrace::failing::ModeOf(flags, arguments);
  va_end(arguments);
  if (millrace::failing::Fails(millrace::Failing::kOpen, path)) return -1;
  return next(folder, path, flags, mode);
}

DIR* opendir(const char* path) {
  static auto* const next = millrace::failing::Next<DIR*(const char*)>("opendir");
  return millrace::failing::Fails(millrace::Failing::kOpen, path) ? nullptr : next(path);
}

int stat(const char* path, struct stat* info) noexcept {
  static auto* const next = millrace::failing::Next<int(const char*, struct stat*)>("stat");
  return millrace::failing::Fails(millrace::Failing::kLook, path) ? -1 : next(path, info);
}

int lstat(const char* path, struct stat* info) noexcept {
  static auto* const next = millrace::failing::Next<int(const char*, struct stat*)>("lstat");
  return millrace::failing::Fails(millrace::Failing::kLook, path) ? -1 : next(path, info);
}

dirent* readdir(DIR* folder) {
  static auto* const next = millrace::failing::Next<dirent*(DIR*)>("readdir");
  return millrace::failing::ReadFails(::dirfd(folder), 1) ? nullptr : next(folder);
}

ssize_t read(int fd, void* out, size_t size) {
  static auto* const next = millrace::failing::Next<ssize_t(int, void*, size_t)>("read");
  const bool fails =
      millrace::failing_file.load() != nullptr &&
      millrace::failing::ReadFails(fd, ::lseek(fd, 0, SEEK_CUR) + static_cast<off_t>(size));
  return fails ? -1 : next(fd, out, size);
}

ssize_t pread(int fd, void* out, size_t size, off_t offset) {
  static auto* const next = millrace::failing::Next<ssize_t(int, void*, size_t, off_t)>("pread");
  if (millrace::failing::ReadFails(fd, offset + static_cast<off_t>(size))) return -1;
  return next(fd, out, size, offset);
}

// No bytes are had without a wait.
ssize_t preadv2(int, const iovec*, int, off_t, int) {
  errno = EAGAIN;
  return -1;
}
}  // extern "C"

#endif  // MILLRACE_TESTS_FAILING_FILES_H_
