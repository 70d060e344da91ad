#ifndef MILLRACE_BASE_MADE_FOLDER_H_
#define MILLRACE_BASE_MADE_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace {

// A folder for output, which is made if it is missing. Folders that were made for it and are still
// empty go away with this object, so that work that fails leaves none. Thread-compatible.
class MadeFolder {
 public:
  // Makes the folder, and those above it.
  //   PERMISSION_DENIED, ...  it cannot be made
  static absl::StatusOr<MadeFolder> Make(const std::string& path);
  MadeFolder(MadeFolder&&) = default;
  MadeFolder& operator=(MadeFolder&&) = delete;
  ~MadeFolder();

 private:
  MadeFolder() = default;

  std::vector<std::string> made_;  // the innermost first
};

}  // namespace millrace

#endif  // MILLRACE_BASE_MADE_FOLDER_H_
