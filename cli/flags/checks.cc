#include "cli/flags/checks.h"

#include "absl/strings/str_cat.h"

namespace millrace::cli {

absl::StatusOr<std::map<std::string, std::string>> ParseVariables(
    const std::vector<std::string>& assignments) {
  std::map<std::string, std::string> variables;
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--var wants NAME=VALUE, not \"", assignment, "\""));
    }
    const std::string name = assignment.substr(0, equals);
    if (!variables.emplace(name, assignment.substr(equals + 1)).second) {
      return absl::InvalidArgumentError(absl::StrCat("--var ", name, " is given twice"));
    }
  }
  return variables;
}

absl::Status CheckPrefix(const std::string& prefix) {
  const bool is_name =
      !prefix.empty() && prefix.find('/') == std::string::npos && prefix != "." && prefix != "..";
  if (is_name) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("prefix: '", prefix, "' is no name of a file; --out says the folder"));
}

absl::Status CheckRank(int rank, int world) {
  if (rank < world) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--rank ", rank, " is not below --world ", world, "; ranks count from 0"));
}

}  // namespace millrace::cli
