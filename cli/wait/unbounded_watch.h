#ifndef MILLRACE_CLI_WAIT_UNBOUNDED_WATCH_H_
#define MILLRACE_CLI_WAIT_UNBOUNDED_WATCH_H_

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "cli/exit.h"

namespace millrace::cli {

// Ends the process, with a line on standard error, if a wait that cannot be interrupted takes too
// long: MPI_Init waits for ever for a rank that does not come, MPI_Finalize for one that does not
// end. Time in which this process itself was stopped does not count. Thread-compatible; must
// outlive the communicators of the Connect that calls it.
class UnboundedWatch {
 public:
  explicit UnboundedWatch(std::chrono::nanoseconds limit) : limit_(limit) {}
  ~UnboundedWatch() { Tell(""); }
  UnboundedWatch(const UnboundedWatch&) = delete;
  UnboundedWatch& operator=(const UnboundedWatch&) = delete;

  // Takes the name of a wait that has begun; empty: it is over. For ConnectOptions::on_unbounded.
  // If no thread can be started, the wait is not watched.
  void Tell(std::string_view what);
  // Sets a remark for the line ("the training is done"), and the exit code, of the waits that begin
  // from now on.
  void Note(std::string note, int exit_code = kFailed) {
    note_ = std::move(note);
    exit_code_ = exit_code;
  }

 private:
  void Run(const std::string& text);

  const std::chrono::nanoseconds limit_;
  std::string note_;
  int exit_code_ = kFailed;  // used by the thread during a wait
  Mutex mu_;
  CondVar over_;
  bool waits_ MILLRACE_GUARDED_BY(mu_) = false;  // true during a wait
  std::jthread thread_;                          // runs during a wait
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_UNBOUNDED_WATCH_H_
