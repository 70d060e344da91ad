#include "cli/flags/files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/status.h"
#include "readers/expand_files.h"

namespace millrace::cli {
namespace {

bool IsFolder(const std::string& name) {
  std::error_code error;
  return std::filesystem::is_directory(name, error);
}

}  // namespace

absl::Status CheckNoFolder(const std::vector<std::string>& names,
                           const std::optional<readers::ContainerOptions>& container) {
  const auto folder = std::ranges::find_if(names, IsFolder);
  if (!container.has_value() || folder == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(*folder + " is a folder of images, which have no --container");
}

absl::StatusOr<std::vector<std::string>> FilesAndFolders(const std::vector<std::string>& names) {
  std::vector<std::string> patterns;
  std::vector<std::string> folders;
  for (const std::string& name : names) (IsFolder(name) ? folders : patterns).push_back(name);
  std::vector<std::string> files;
  if (!patterns.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(files, readers::ExpandFiles(patterns));
  }
  files.insert(files.end(), folders.begin(), folders.end());
  return files;
}

}  // namespace millrace::cli
