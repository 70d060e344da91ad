#include "cli/live/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kEnd = ".sock";

bool IsOwnFolder(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid();
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

absl::StatusOr<std::string> PlaceOf(const char* runtime, const std::string& root) {
  if (runtime != nullptr && runtime[0] == '/' && IsOwnFolder(runtime)) {
    return absl::StrCat(runtime, "/millrace");
  }
  const std::string user = absl::StrCat(root, "run/user/", geteuid());
  if (IsOwnFolder(user)) return user + "/millrace";
  if (IsFolder(root + "tmp")) return absl::StrCat(root, "tmp/millrace-", geteuid());
  return absl::NotFoundError("no folder for the sockets of running programs");
}

absl::Status CheckIsPrivate(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return ErrnoStatus(errno, "lstat", path);
  if (!S_ISDIR(found.st_mode)) {
    return absl::PermissionDeniedError(path + ": is no folder");
  }
  if (found.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": belongs to user ", found.st_uid, ", not to ", geteuid()));
  }
  if ((found.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(path + ": other users may use it; chmod 700 mends that");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> LiveFolder() { return LiveFolder(std::getenv("XDG_RUNTIME_DIR"), "/"); }

absl::StatusOr<std::string> LiveFolder(const char* runtime, const std::string& root) {
  MILLRACE_ASSIGN_OR_RETURN(std::string path, PlaceOf(runtime, root));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "mkdir", path);
  }
  MILLRACE_RETURN_IF_ERROR(CheckIsPrivate(path));
  return path;
}

std::string SocketPath(std::string_view folder, int64_t pid, std::string_view name) {
  return absl::StrCat(ToAbsl(folder), "/", pid, "-", ToAbsl(name), ToAbsl(kEnd));
}

std::vector<LiveSocket> ListSockets(const std::string& folder) {
  std::vector<LiveSocket> sockets;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    LiveSocket found;
    found.path = at->path().string();
    const std::string file = at->path().filename().string();
    const size_t dash = file.find('-');
    if (dash == std::string::npos || !file.ends_with(kEnd) ||
        dash + 1 + kEnd.size() >= file.size()) {
      continue;
    }
    if (!absl::SimpleAtoi(file.substr(0, dash), &found.pid)) continue;
    found.name = file.substr(dash + 1, file.size() - kEnd.size() - dash - 1);
    sockets.push_back(std::move(found));
  }
  std::ranges::sort(sockets, {}, &LiveSocket::pid);
  return sockets;
}

}  // namespace millrace::cli
