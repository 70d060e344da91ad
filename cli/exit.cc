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

int FailUsage(const std::string& text) {
  std::fprintf(stderr, "millrace: usage: %s\n", ShownMessage(text).c_str());
  return kUsage;
}

int FailUsage(const absl::Status& status) { return FailUsage(std::string(status.message())); }

}  // namespace millrace::cli
