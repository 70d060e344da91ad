#include "readers/file/local_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/local_path.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/file/read_front.h"

namespace millrace::readers {
namespace {

class LocalFile : public RandomAccessFile {
 public:
  LocalFile(UniqueFd fd, std::string path, uint64_t size, PreadFunction pread_function,
            ReadRetry retry, bool leads)
      : fd_(std::move(fd)),
        path_(std::move(path)),
        size_(size),
        retry_(retry),
        leads_(leads && !pread_function),
        pread_(std::move(pread_function)),
        front_(fd_.get()) {
    try_.store(!pread_, std::memory_order_relaxed);
    if (!pread_) pread_ = ::pread;
  }

  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t end = offset + out.size();
    const bool in_turn = !leads_ || front_.Announce(offset, end);
    if (!try_.load(std::memory_order_relaxed)) return false;
    if (!in_turn && missed_.load(std::memory_order_relaxed)) return false;
    const iovec part = {out.data(), out.size()};
    const ssize_t got = ::preadv2(fd_.get(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got == static_cast<ssize_t>(out.size())) {
      if (leads_) front_.Found(offset, end);
      return true;
    }
    if (leads_) front_.Missed(offset, end);
    const bool unknown = got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL);
    if (unknown) try_.store(false, std::memory_order_relaxed);
    missed_.store(leads_, std::memory_order_relaxed);
    return false;
  }

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    constexpr size_t kMostPerCall = size_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB per call
    if (missed_.load(std::memory_order_relaxed)) front_.Reach(offset, offset + out.size());
    size_t done = 0;
    int failed = 0;  // attempts to read what comes next
    while (done < out.size() && offset + done < size_) {
      const size_t want = std::min(out.size() - done, kMostPerCall);
      const ssize_t got =
          pread_(fd_.get(), out.data() + done, want, static_cast<off_t>(offset + done));
      if (got == 0) break;
      if (got > 0) {
        done += static_cast<size_t>(got);
        failed = 0;
      } else if (errno != EINTR) {
        const int error = errno;
        if (!MayPass(error) || ++failed >= retry_.attempts)
          return Failed(error, offset + done, failed);
        std::this_thread::sleep_for(retry_.backoff * (1 << std::min(failed - 1, 10)));
      }
    }
    return done;
  }

  uint64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }

 private:
  static bool MayPass(int error) {
    return error == EIO || error == EAGAIN || error == ESTALE || error == ETIMEDOUT;
  }
  absl::Status Failed(int error, uint64_t offset, int attempts) const {
    const std::string tried = attempts > 1 ? absl::StrCat(" (tried ", attempts, " times)") : "";
    return ErrnoStatus(error, "pread", absl::StrCat(path_, " at offset ", offset, tried));
  }

  const UniqueFd fd_;
  const std::string path_;
  const uint64_t size_;
  const ReadRetry retry_;
  const bool leads_;     // reads in order go through front_
  PreadFunction pread_;  // set in the constructor only
  // False where the file system cannot tell, or reads are a test's; readers -> readers, relaxed: a
  // late look costs one call.
  mutable std::atomic<bool> try_{true};
  // The page cache has missed once; readers -> readers, relaxed: a late look costs a read.
  mutable std::atomic<bool> missed_{false};
  mutable ReadFront front_;
};

struct OpenedFile {
  UniqueFd fd;
  bool regular = false;
  uint64_t size = 0;  // 0 where a file has none
};

absl::StatusOr<OpenedFile> OpenAny(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string local, LocalPath(path));
  // O_NONBLOCK keeps the open of a pipe without a writer from blocking; regular files ignore it.
  OpenedFile file{UniqueFd(::open(local.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (!file.fd.valid()) return ErrnoStatus(errno, "open", path);
  struct stat info = {};
  if (::fstat(file.fd.get(), &info) != 0) return ErrnoStatus(errno, "fstat", path);
  file.regular = S_ISREG(info.st_mode);
  if (file.regular) file.size = static_cast<uint64_t>(info.st_size);
  return file;
}

absl::StatusOr<OpenedFile> OpenRegular(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(OpenedFile file, OpenAny(path));
  if (file.regular) return file;
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
}

}  // namespace

std::shared_ptr<const RandomAccessFile> MakeLocalFile(UniqueFd fd, std::string path, uint64_t size,
                                                      PreadFunction pread_function, ReadRetry retry,
                                                      bool leads) {
  return std::make_shared<LocalFile>(std::move(fd), std::move(path), size,
                                     std::move(pread_function), retry, leads);
}

absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenLocalFile(const std::string& path,
                                                                      const FileAccess& access) {
  MILLRACE_ASSIGN_OR_RETURN(OpenedFile file, OpenRegular(path));
  return WithAccess(std::move(file.fd), path, file.size, access);
}

absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenAndFetch(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(OpenedFile file, OpenRegular(path));
  ::posix_fadvise(file.fd.get(), 0, 0, POSIX_FADV_WILLNEED);  // without it only slower
  return MakeLocalFile(std::move(file.fd), path, file.size);
}

absl::Status ReadFully(const RandomAccessFile& file, uint64_t offset, std::span<std::byte> out) {
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(offset, out));
  if (got == out.size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file.path(), ": short read at offset ", offset, ": ", got,
                                          " of ", out.size(), " bytes"));
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t max_bytes) {
  const auto too_long = [&] {
    return absl::InvalidArgumentError(absl::StrCat(path, ": longer than ", max_bytes, " bytes"));
  };
  MILLRACE_ASSIGN_OR_RETURN(const OpenedFile file, OpenAny(path));
  if (file.size > max_bytes) return too_long();
  if (::fcntl(file.fd.get(), F_SETFL, 0) != 0) return ErrnoStatus(errno, "fcntl", path);
  constexpr uint64_t kLeastBytes = 4095;
  // A byte more than there should be shows the end.
  std::string bytes(std::min(max_bytes, std::max(file.size, kLeastBytes)) + 1, '\0');
  size_t have = 0;
  while (true) {
    if (have == bytes.size()) bytes.resize(std::min<uint64_t>(2 * have, max_bytes + 1));
    const ssize_t got = ::read(file.fd.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path);
    if (got == 0) break;
    have += static_cast<size_t>(got);
    if (have > max_bytes) return too_long();
  }
  if (have < file.size) {
    return absl::DataLossError(absl::StrCat(path, ": became shorter while it was read: ", have,
                                            " of ", file.size, " bytes"));
  }
  bytes.resize(have);
  return bytes;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, uint64_t max_bytes) {
  MILLRACE_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(path, max_bytes));
  if (const std::string_view why = WhyNotText(text); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", ToAbsl(why)));
  }
  text.erase(0, ByteOrderMarkBytes(text));
  return text;
}

}  // namespace millrace::readers
