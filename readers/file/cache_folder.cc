#include "readers/cache_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "base/atomic_file.h"
#include "base/status.h"
#include "readers/open_file.h"

namespace millrace::readers {
namespace {

std::string DefaultFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/millrace";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/millrace";
  return "";
}

// Waits for the lock of a file; the system does not ask anybody meanwhile.
bool TakeLock(int fd, const Cancels& cancels) {
  constexpr std::chrono::milliseconds kAskTime{20};
  const int operation = cancels ? LOCK_EX | LOCK_NB : LOCK_EX;
  while (::flock(fd, operation) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || cancels()) return false;
    std::this_thread::sleep_for(kAskTime);
  }
  return true;
}

// Whether a file of that name may be one of ours: 32 hex digits, and what it is.
bool IsCacheName(std::string_view name) {
  constexpr size_t kHashDigits = 32;
  return name.size() > kHashDigits && name[kHashDigits] == '.' &&
         name.find_first_not_of("0123456789abcdef") == kHashDigits;
}

}  // namespace

CacheFolder::CacheFolder(const std::string& folder)
    : folder_(folder.empty() ? DefaultFolder() : folder) {}

std::optional<std::vector<std::byte>> CacheFolder::Load(const std::string& path,
                                                        uint64_t max_bytes) {
  const auto opened = OpenFile(path);
  if (!opened.ok() || (*opened)->size() > max_bytes) return std::nullopt;
  std::vector<std::byte> bytes((*opened)->size());
  if (!ReadFully(**opened, 0, bytes).ok()) return std::nullopt;
  return bytes;
}

UniqueFd CacheFolder::Lock(const std::string& path, const Cancels& cancels) const {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  UniqueFd fd(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (fd.valid() && !TakeLock(fd.get(), cancels)) fd.Reset();
  return fd;
}

absl::Status CacheFolder::CheckUsable() const {
  if (!exists()) {
    return absl::FailedPreconditionError(
        "there is no folder for indexes: neither XDG_CACHE_HOME nor HOME is an absolute path");
  }
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return ErrnoStatus(error.value(), "create folder", folder_);
  const absl::StatusOr<std::unique_ptr<AtomicFile>> probe = AtomicFile::Create(PathOf("probe"));
  if (!probe.ok()) return probe.status();
  constexpr std::byte kByte{};
  return (*probe)->Append({&kByte, 1});
}

void CacheFolder::RemoveAbandoned() const { AtomicFile::RemoveAbandonedIn(folder_, IsCacheName); }

absl::Status CacheFolder::Store(const std::string& path, std::span<const std::byte> bytes) {
  auto out = AtomicFile::Create(path);
  if (!out.ok()) return out.status();
  const absl::Status status = (*out)->Append(bytes);
  return status.ok() ? (*out)->Commit(/*sync=*/false) : status;
}

}  // namespace millrace::readers
