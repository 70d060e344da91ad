#include "base/made_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/status.h"

namespace millrace {

namespace fs = std::filesystem;

absl::StatusOr<MadeFolder> MadeFolder::Make(const std::string& path) {
  MadeFolder folder;
  std::error_code error;
  for (fs::path at = path; at.has_relative_path() && !fs::exists(at, error);
       at = at.parent_path()) {
    folder.made_.push_back(at.string());
  }
  fs::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), "create folder", path);
  return folder;
}

MadeFolder::~MadeFolder() {
  for (const std::string& path : made_) {
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return;  // it is in use
  }
}

}  // namespace millrace
