#include "readers/file/work_folder.h"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "readers/open_file.h"

namespace millrace::readers {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJob = "job";  // a file in the folder that names its job
constexpr uint64_t kMaxJobBytes = 4096;

std::string JobText(uint64_t job) { return absl::StrFormat("%016x\n", job); }

}  // namespace

absl::StatusOr<std::unique_ptr<WorkFolder>> WorkFolder::Make(const fs::path& stem, uint64_t job) {
  constexpr int kAttempts = 100;  // to be locked before another process takes it for abandoned
  std::string path;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    path = absl::StrCat(stem.string(), ToAbsl(kMark));
    if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "mkdtemp", path);
    if (auto folder = Lock(path)) {
      MILLRACE_RETURN_IF_ERROR(WriteWhole(folder->path_ / kJob, JobText(job)));
      return folder;
    }
    if (errno != ENOENT && errno != EWOULDBLOCK) return ErrnoStatus(errno, "open", path);
  }
  return absl::AbortedError(absl::StrCat(path, ": other processes remove it"));
}

std::unique_ptr<WorkFolder> WorkFolder::TakeOver(const fs::path& path, uint64_t job) {
  const auto text = ReadWholeFile((path / kJob).string(), kMaxJobBytes);
  std::error_code ignored;
  if (!text.ok() || *text != JobText(job) || fs::exists(path / kReplaced, ignored)) return nullptr;
  return Lock(path.string());
}

WorkFolder::~WorkFolder() {
  if (kept_) return;
  std::error_code ignored;  // what cannot be removed stays; the writer's own status matters
  fs::remove_all(path_, ignored);
}

std::unique_ptr<WorkFolder> WorkFolder::Lock(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return nullptr;
  if (!TakeUseLock(fd.get()) && errno == EWOULDBLOCK) return nullptr;
  std::error_code error;
  if (!fs::exists(path, error)) {
    errno = ENOENT;
    return nullptr;
  }
  return std::unique_ptr<WorkFolder>(new WorkFolder(path, std::move(fd)));
}

absl::Status WriteWhole(const fs::path& path, std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path.string()));
  MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(text))));
  return file->Commit(/*sync=*/true);
}

}  // namespace millrace::readers
