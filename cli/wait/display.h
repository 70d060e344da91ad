#ifndef MILLRACE_CLI_WAIT_DISPLAY_H_
#define MILLRACE_CLI_WAIT_DISPLAY_H_

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "cli/exit.h"
#include "cli/wait/progress.h"

namespace millrace::cli {

// Lines on standard output; below them, on a terminal, a bar.
class Display {
 public:
  void Line(std::string_view line) {
    index_.reset();
    if (bar_) bar_->Clear();
    std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
    std::fflush(stdout);
  }
  // From any thread.
  static void Warning(std::string_view line) {
    std::fprintf(stderr, "millrace: warning: %.*s\n", static_cast<int>(line.size()), line.data());
  }
  void Failure(const absl::Status& status) {
    index_.reset();
    bar_.reset();
    Fail(status);
  }
  void Index(int64_t done, int64_t total) {
    if (!index_) index_.emplace("index", "bytes", total);
    index_->Update(done);
  }
  // Takes the progress off: results follow.
  void End() {
    index_.reset();
    bar_.reset();
  }
  void Step(uint64_t done, uint64_t total) {
    if (!terminal_) return;
    if (!bar_) bar_.emplace("train", "steps", static_cast<int64_t>(total));
    bar_->Update(static_cast<int64_t>(done));
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  std::optional<Progress> index_;
  std::optional<Progress> bar_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_DISPLAY_H_
