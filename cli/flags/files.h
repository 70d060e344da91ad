#ifndef MILLRACE_CLI_FLAGS_FILES_H_
#define MILLRACE_CLI_FLAGS_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/container.h"

namespace millrace::cli {

// Checks that no folder of images is among `names` where `container` says what files are.
//   INVALID_ARGUMENT  names the folder
absl::Status CheckNoFolder(const std::vector<std::string>& names,
                           const std::optional<readers::ContainerOptions>& container);

// The files that `names` (files, patterns, lists, folders of images) stand for; folders come last.
//   NOT_FOUND, ...  as readers::ExpandFiles
absl::StatusOr<std::vector<std::string>> FilesAndFolders(const std::vector<std::string>& names);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_FILES_H_
