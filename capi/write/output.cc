#include "capi/write/output.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/local_path.h"
#include "base/status.h"
#include "capi/call/guard.h"

namespace millrace::capi {

absl::StatusOr<Output> MakeOutput(const char* type, const char* prefix) {
  MILLRACE_RETURN_IF_ERROR(CheckGiven(type, {{"prefix", prefix != nullptr}}));
  MILLRACE_ASSIGN_OR_RETURN(std::string path, LocalPath(prefix));
  const std::filesystem::path parts(path);
  const std::string name = parts.filename().string();
  if (name.empty() || name == "." || name == "..") {
    return absl::InvalidArgumentError(
        absl::StrCat("prefix: '", path, "' ends in no name for the shards"));
  }
  const std::string folder = parts.has_parent_path() ? parts.parent_path().string() : ".";
  MILLRACE_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(folder));
  return Output{std::move(made), std::move(path)};
}

}  // namespace millrace::capi
