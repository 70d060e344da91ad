#ifndef MILLRACE_CLI_DOCTOR_CHILD_H_
#define MILLRACE_CLI_DOCTOR_CHILD_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millrace::cli::doctor {

// The wait for a child. Both functions are called on the calling thread.
struct ChildWatch {
  // Called each tenth of a second in which nothing came, with the last line and the time since it;
  // true gives the child up.
  std::function<bool(std::string_view last_line, double silent_seconds)> gives_up;
  // Called whenever something came, and each tenth of a second. May be empty.
  std::function<void()> tick = {};
};

struct ChildEnd {
  std::string last_line = {};  // the last whole line that it sent; empty: none
  double silent_seconds = 0;   // the time after which it was given up and killed; 0: it ended
  int signal = 0;              // the signal by which it ended itself; 0: none
};

// Runs `work` in a child process and waits for it to end. `work` gets a function that sends a line
// to this process. A driver that hangs or crashes takes only the child with it, which writes to
// neither standard output nor standard error, and ends with this process. A child that does not
// even die, because its call in the kernel does not return, is left behind.
//   RESOURCE_EXHAUSTED, other  there is no pipe or no process
absl::StatusOr<ChildEnd> RunInChild(
    const std::function<void(const std::function<void(std::string_view line)>& send)>& work,
    const ChildWatch& watch);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_CHILD_H_
