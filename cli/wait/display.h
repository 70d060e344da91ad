#ifndef MILLRACE_CLI_WAIT_DISPLAY_H_
#define MILLRACE_CLI_WAIT_DISPLAY_H_

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "cli/exit.h"
#include "cli/wait/progress.h"

namespace millrace::cli {

// Lines on standard output; below them, on a terminal, a bar. Thread-safe.
class Display {
 public:
  void Line(std::string_view line) {
    const MutexLock lock(mu_);
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
    const MutexLock lock(mu_);
    index_.reset();
    bar_.reset();
    Fail(status);
  }
  void Index(int64_t done, int64_t total) {
    const MutexLock lock(mu_);
    if (!index_) index_.emplace("index", "bytes", total);
    index_->Update(done);
  }
  // Takes the progress off: results follow.
  void End() {
    const MutexLock lock(mu_);
    index_.reset();
    bar_.reset();
  }
  void Step(uint64_t done, uint64_t total) {
    const MutexLock lock(mu_);
    if (!terminal_) return;
    if (!bar_) bar_.emplace("train", "steps", static_cast<int64_t>(total));
    bar_->Update(static_cast<int64_t>(done));
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  Mutex mu_;
  std::optional<Progress> index_ MILLRACE_GUARDED_BY(mu_);
  std::optional<Progress> bar_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_DISPLAY_H_
