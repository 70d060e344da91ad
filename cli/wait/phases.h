#ifndef MILLRACE_CLI_WAIT_PHASES_H_
#define MILLRACE_CLI_WAIT_PHASES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/wait/progress.h"

namespace millrace::cli {

// The progress of work in phases, one after the other, each with a bar or lines of its own.
// Thread-compatible.
class Phases {
 public:
  explicit Phases(Progress::NowFunction now = &std::chrono::steady_clock::now) : now_(now) {}

  // Shows that `done` of `total` (0: unknown) are done of the phase `what`, as Progress does.
  // Another name than the last one begins a phase.
  void Update(std::string_view what, std::string_view unit, int64_t done, int64_t total) {
    if (!shown_ || what_ != what) Begin(what, unit);
    shown_->SetTotal(total);
    shown_->Update(done);
  }
  // Begins a phase whose work starts now: its rates count from here.
  void Begin(std::string_view what, std::string_view unit) {
    what_ = what;
    shown_.reset();  // prints its last line before the next one begins
    shown_.emplace(what, unit, 0, now_);
  }
  void End() { shown_.reset(); }

  // A function that updates a phase. It must not outlive this object.
  std::function<void(int64_t done, int64_t total)> Callback(std::string_view what,
                                                            std::string_view unit) {
    return [this, what = std::string(what), unit = std::string(unit)](int64_t done, int64_t total) {
      Update(what, unit, done, total);
    };
  }

 private:
  const Progress::NowFunction now_;
  std::string what_;
  std::optional<Progress> shown_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_PHASES_H_
