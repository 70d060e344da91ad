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

// Ends the process, with a line on standard error, when a wait that nothing interrupts
// takes too long: MPI_Init waits for ever for a rank that does not come, MPI_Finalize for one that
// does not end. Time in which this process was stopped itself does not count. Thread-compatible;
// outlives the communicators of the Connect that tells it.
class UnboundedWatch {
 public:
  explicit UnboundedWatch(std::chrono::nanoseconds limit) : limit_(limit) {}
  ~UnboundedWatch() { Tell(""); }
  UnboundedWatch(const UnboundedWatch&) = delete;
  UnboundedWatch& operator=(const UnboundedWatch&) = delete;

  // Tells which wait has begun; empty: it is over. For ConnectOptions::on_unbounded. If no thread
  // can be started, the wait is not watched.
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
  int exit_code_ = kFailed;  // of the thread while something has begun
  Mutex mu_;
  CondVar over_;
  bool waits_ MILLRACE_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // while something has begun
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_UNBOUNDED_WATCH_H_
