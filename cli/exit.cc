#include "cli/exit.h"

#include <cstdio>

namespace millrace::cli {

int Fail(const absl::Status& status) {
  std::fflush(stdout);  // what was found so far stands before the error
  std::fprintf(stderr, "millrace: error: %s\n", std::string(status.message()).c_str());
  return kFailed;
}

void Warn(std::string_view text) {
  std::fprintf(stderr, "millrace: warning: %.*s\n", static_cast<int>(text.size()), text.data());
}

void WarnOfLog(LogLevel level, std::string_view message) {
  if (level != LogLevel::kInfo) Warn(message);
}

int FailUsage(const std::string& text) {
  std::fprintf(stderr, "millrace: usage: %s\n", text.c_str());
  return kUsage;
}

int FailUsage(const absl::Status& status) { return FailUsage(std::string(status.message())); }

}  // namespace millrace::cli
