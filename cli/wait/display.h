#ifndef MILLRACE_CLI_WAIT_DISPLAY_H_
#define MILLRACE_CLI_WAIT_DISPLAY_H_

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "cli/exit.h"
#include "cli/top/inline_top.h"
#include "cli/wait/phases.h"
#include "cli/wait/progress.h"

namespace millrace::cli {

// Lines on standard output; below them, on a terminal, a bar, or the screen of `millrace top`.
// Thread-safe.
class Display {
 public:
  // Takes the place of the bar until it is null again.
  void SetTop(InlineTop* top) {
    const MutexLock lock(mu_);
    bar_.reset();
    top_ = top;
  }
  void Line(std::string_view line) {
    const MutexLock lock(mu_);
    phases_.End();
    if (bar_) bar_->Clear();
    Above([line] {
      std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
      std::fflush(stdout);
    });
  }
  // From any thread.
  static void Warning(std::string_view line) {
    std::fprintf(stderr, "millrace: warning: %.*s\n", static_cast<int>(line.size()), line.data());
  }
  void Failure(const absl::Status& status) {
    const MutexLock lock(mu_);
    phases_.End();
    bar_.reset();
    Above([&status] { Fail(status); });
  }
  void Index(int64_t done, int64_t total) { Show("index", "bytes", done, total); }
  // A part of the work, until the next line or the next part.
  void Show(std::string_view what, std::string_view unit, int64_t done, int64_t total) {
    const MutexLock lock(mu_);
    if (bar_) bar_->Clear();
    phases_.Update(what, unit, done, total);
  }
  // Of an evaluation amid a training, whose lines tell enough where there is no terminal.
  void Evaluate(int64_t done, int64_t total) {
    if (terminal_) Show("evaluate", "batches", done, total);
  }
  // Takes the progress off: results follow.
  void End() {
    const MutexLock lock(mu_);
    phases_.End();
    bar_.reset();
  }
  void Step(uint64_t done, uint64_t total) {
    const MutexLock lock(mu_);
    phases_.End();
    if (!terminal_ || top_ != nullptr) return;
    if (!bar_) bar_.emplace("train", "steps", static_cast<int64_t>(total));
    bar_->Update(static_cast<int64_t>(done));
  }

 private:
  void Above(const std::function<void()>& print) MILLRACE_REQUIRES(mu_) {
    if (top_ == nullptr) return print();
    top_->Above(print);
  }

  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  Mutex mu_;
  Phases phases_ MILLRACE_GUARDED_BY(mu_);
  std::optional<Progress> bar_ MILLRACE_GUARDED_BY(mu_);
  InlineTop* top_ MILLRACE_GUARDED_BY(mu_) = nullptr;  // null: there is none
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_DISPLAY_H_
