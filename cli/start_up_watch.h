#ifndef MILLRACE_CLI_START_UP_WATCH_H_
#define MILLRACE_CLI_START_UP_WATCH_H_

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"

namespace millrace::cli {

// Ends the process, with kFailed and a line on standard error, when a step of the start that nothing
// interrupts takes too long: MPI_Init waits for ever for a rank that does not come.
class StartUpWatch {
 public:
  explicit StartUpWatch(std::chrono::nanoseconds limit) : limit_(limit) {}
  ~StartUpWatch() { Tell(""); }
  StartUpWatch(const StartUpWatch&) = delete;
  StartUpWatch& operator=(const StartUpWatch&) = delete;

  // What has begun; empty: it is over. For ConnectOptions::on_unbounded.
  void Tell(std::string_view what);

 private:
  void Run(const std::string& what);

  const std::chrono::nanoseconds limit_;
  Mutex mu_;
  CondVar over_;
  bool waits_ MILLRACE_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // while something has begun
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_START_UP_WATCH_H_
