#include "cli/doctor/disk_rate.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/local_path.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "readers/expand_files.h"

namespace millrace::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kAlignment = 4096;  // enough for O_DIRECT on every disk there is
constexpr auto kTickPeriod = std::chrono::milliseconds(100);

struct SizedFile {
  std::string path;
  uint64_t bytes = 0;
};

absl::StatusOr<std::vector<std::string>> FilesBelow(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) files.push_back(at->path().string());
  }
  if (error) return ErrnoStatus(error.value(), "list", folder);
  if (files.empty()) return absl::InvalidArgumentError(absl::StrCat(folder, ": holds no file"));
  std::ranges::sort(files);
  return files;
}

absl::StatusOr<std::vector<SizedFile>> WithSizes(const std::vector<std::string>& paths) {
  std::vector<SizedFile> files;
  for (const std::string& path : paths) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat", path);
    if (!S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
    }
    files.push_back({path, static_cast<uint64_t>(info.st_size)});
  }
  return files;
}

bool LiesInMemory(const std::string& path) {
  struct statfs info = {};
  if (::statfs(path.c_str(), &info) != 0) return false;
  return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC;
}

// A file that is open past the page cache, as far as its file system can.
struct Opened {
  UniqueFd fd;
  bool is_direct = false;
};

absl::StatusOr<Opened> OpenPastCache(const std::string& path) {
  Opened opened;
  opened.fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  opened.is_direct = opened.fd.valid();
  if (opened.is_direct) return opened;
  opened.fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.fd.valid()) return ErrnoStatus(errno, "open", path);
  ::posix_fadvise(opened.fd.get(), 0, 0, POSIX_FADV_DONTNEED);  // pages in use stay
  return opened;
}

// Thread-safe.
class DiskReader {
 public:
  DiskReader(std::vector<SizedFile> files, const DiskRateOptions& options)
      : files_(std::move(files)), options_(options), start_(options.now()) {
    for (const SizedFile& file : files_) total_bytes_ += file.bytes;
  }

  uint64_t total_bytes() const { return total_bytes_; }

  absl::Status Run() {
    {
      std::vector<std::jthread> threads;
      const auto num_threads = static_cast<uint64_t>(options_.threads);
      for (uint64_t thread = 0; thread < num_threads; ++thread) {
        const uint64_t begin = total_bytes_ * thread / num_threads;
        const uint64_t end = total_bytes_ * (thread + 1) / num_threads;
        threads.emplace_back([this, begin, end] { ReadStretch(begin, end); });
      }
      WaitForThreads();
    }
    const MutexLock lock(mu_);
    return error_;
  }

  uint64_t read_bytes() const { return read_bytes_.load(std::memory_order_relaxed); }
  bool was_direct() const { return was_direct_.load(std::memory_order_relaxed); }

 private:
  bool TimeIsOver() const {
    return std::chrono::duration<double>(options_.now() - start_).count() >= options_.seconds;
  }

  void WaitForThreads() {
    const MutexLock lock(mu_);
    while (num_done_ < options_.threads) {
      changed_.WaitFor(mu_, kTickPeriod);
      if (options_.tick) options_.tick();
    }
  }

  // Reads bytes [begin, end) of all files, laid end to end.
  void ReadStretch(uint64_t begin, uint64_t end) {
    const absl::Status status = TryReadStretch(begin, end);
    const MutexLock lock(mu_);
    if (error_.ok()) error_ = status;
    ++num_done_;
    changed_.NotifyAll();
  }

  absl::Status TryReadStretch(uint64_t begin, uint64_t end) {
    struct Free {
      void operator()(std::byte* memory) const { std::free(memory); }
    };
    const std::unique_ptr<std::byte, Free> piece(
        static_cast<std::byte*>(std::aligned_alloc(kAlignment, kPieceBytes)));
    if (piece == nullptr) return absl::ResourceExhaustedError("no memory to read into");
    uint64_t file_begin = 0;
    for (const SizedFile& file : files_) {
      const uint64_t file_end = file_begin + file.bytes;
      if (file_begin < end && begin < file_end) {
        const uint64_t from = std::max(begin, file_begin) - file_begin;
        const uint64_t until = std::min(end, file_end) - file_begin;
        MILLRACE_RETURN_IF_ERROR(ReadFile(file, from, until, {piece.get(), kPieceBytes}));
      }
      file_begin = file_end;
    }
    return absl::OkStatus();
  }

  // Reads [from, until) of a file in pieces, from an aligned place on.
  absl::Status ReadFile(const SizedFile& file, uint64_t from, uint64_t until,
                        std::span<std::byte> piece) {
    MILLRACE_ASSIGN_OR_RETURN(const Opened opened, OpenPastCache(file.path));
    if (!opened.is_direct) was_direct_.store(false, std::memory_order_relaxed);
    for (uint64_t at = from / kAlignment * kAlignment; at < until && !TimeIsOver();) {
      const ssize_t got =
          ::pread(opened.fd.get(), piece.data(), piece.size(), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, "read", file.path);
      if (got == 0) break;
      read_bytes_.fetch_add(static_cast<uint64_t>(got), std::memory_order_relaxed);
      at += static_cast<uint64_t>(got);
    }
    return absl::OkStatus();
  }

  // Constant after construction.
  const std::vector<SizedFile> files_;
  const DiskRateOptions& options_;
  const Clock::time_point start_;
  uint64_t total_bytes_ = 0;

  std::atomic<uint64_t> read_bytes_{0};  // readers -> caller, relaxed: read after they have ended
  std::atomic<bool> was_direct_{true};   // as above

  Mutex mu_;
  CondVar changed_;
  int num_done_ MILLRACE_GUARDED_BY(mu_) = 0;  // threads that have ended
  absl::Status error_ MILLRACE_GUARDED_BY(mu_);
};

absl::StatusOr<DiskRate> Measure(const std::string& path, const DiskRateOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, DataFilesOf(path));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<SizedFile> files, WithSizes(paths));
  const bool in_memory = LiesInMemory(files.front().path);
  DiskRate rate{.path = path, .num_files = files.size()};
  const auto start = options.now();
  DiskReader reader(std::move(files), options);
  MILLRACE_RETURN_IF_ERROR(reader.Run());
  rate.seconds = std::chrono::duration<double>(options.now() - start).count();
  rate.file_bytes = reader.total_bytes();
  rate.read_bytes = reader.read_bytes();
  rate.bypass = reader.was_direct() ? Bypass::kDirect : Bypass::kDropped;
  if (in_memory) rate.bypass = Bypass::kMemory;
  return rate;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DataFilesOf(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return FilesBelow(path);
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> files,
                            readers::ExpandFiles(std::span(&path, 1)));
  for (const std::string& file : files) {
    if (SchemeOf(file).empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(file, ": a URL lies on no disk of this host"));
  }
  return files;
}

DiskRate MeasureDiskRate(const std::string& path, const DiskRateOptions& options) {
  const absl::StatusOr<DiskRate> rate = Measure(path, options);
  if (rate.ok()) return *rate;
  return {.path = path, .error = std::string(rate.status().message())};
}

}  // namespace millrace::cli::doctor
