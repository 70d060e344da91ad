#include "cli/exit.h"

#include <cstdio>

#include "base/status.h"
#include "base/text.h"

namespace millrace::cli {

int Fail(const absl::Status& status) {
  std::fflush(stdout);  // the output so far comes before the error
  std::fprintf(stderr, "millrace: error: %s\n", ShownMessage(ToStd(status.message())).c_str());
  return kFailed;
}

void Warn(std::string_view text) {
  std::fprintf(stderr, "millrace: warning: %s\n", ShownMessage(text).c_str());
}

void WarnOfLog(LogLevel level, std::string_view message) {
  if (level != LogLevel::kInfo) Warn(message);
}

int FailUsage(const std::string& text) {
  std::fprintf(stderr, "millrace: usage: %s\n", ShownMessage(text).c_str());
  return kUsage;
}

int FailUsage(const absl::Status& status) { return FailUsage(std::string(status.message())); }

}  // namespace millrace::cli
