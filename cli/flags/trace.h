#ifndef MILLRACE_CLI_FLAGS_TRACE_H_
#define MILLRACE_CLI_FLAGS_TRACE_H_

#include <chrono>
#include <string>

#include "cli/flags/command_line.h"

namespace millrace::cli {

// The flags of commands that can be looked at for some time.
struct TraceFlags {
  std::string file;     // empty: there is no trace
  double seconds = 10;  // the time that is traced

  std::chrono::nanoseconds time() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds));
  }
};

// Adds the flags. `flags` must live until the command line was parsed.
void AddTraceFlags(Command command, TraceFlags& flags);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_TRACE_H_
