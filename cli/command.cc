#include "cli/command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace millrace::cli {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "millrace: error: %s\n", std::string(status.message()).c_str());
  return kFailed;
}

int FailUsage(const std::string& text) {
  std::fprintf(stderr, "millrace: usage: %s\n", text.c_str());
  return kUsage;
}

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

std::string HumanBytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 5) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f B", bytes)
                   : absl::StrFormat("%.1f %s", bytes, kUnits[unit]);
}

}  // namespace millrace::cli
