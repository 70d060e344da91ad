#include "cli/commands/command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::cli {

int Fail(const absl::Status& status) {
  std::fflush(stdout);  // what was found so far stands before the error
  std::fprintf(stderr, "millrace: error: %s\n", std::string(status.message()).c_str());
  return kFailed;
}

int FailUsage(const std::string& text) {
  std::fprintf(stderr, "millrace: usage: %s\n", text.c_str());
  return kUsage;
}

int FailUsage(const absl::Status& status) { return FailUsage(std::string(status.message())); }

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
