#ifndef MILLRACE_CLI_TOP_INLINE_TOP_H_
#define MILLRACE_CLI_TOP_INLINE_TOP_H_

#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "cli/live/snapshot.h"
#include "cli/top/history.h"

namespace millrace::cli {

// The screen of `millrace top` inside the program that it shows: on standard error, below other
// output, redrawn each second; where that is no terminal, a line each few seconds. Thread-safe.
class InlineTop {
 public:
  // Makes the figures; called on a thread of this object's.
  using Source = std::function<Snapshot()>;

  // Begins to draw. If no thread can be started, nothing is drawn.
  explicit InlineTop(Source source);
  // Takes the screen off.
  ~InlineTop();
  InlineTop(const InlineTop&) = delete;
  InlineTop& operator=(const InlineTop&) = delete;

  // Calls `print`, which prints lines, such that they stand above the screen.
  void Above(const std::function<void()>& print);

 private:
  void Run();
  void Draw() MILLRACE_REQUIRES(mu_);

  const Source source_;
  const bool terminal_;
  const std::chrono::milliseconds turn_;
  Mutex mu_;
  CondVar changed_;
  bool ends_ MILLRACE_GUARDED_BY(mu_) = false;
  History history_ MILLRACE_GUARDED_BY(mu_);
  std::thread thread_;
};

// For a program that a signal ends at once: such a signal first takes the screen off.
void ClearOnSignals();

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_INLINE_TOP_H_
