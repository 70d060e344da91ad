#ifndef MILLRACE_CLI_FLAGS_LAUNCH_H_
#define MILLRACE_CLI_FLAGS_LAUNCH_H_

#include <chrono>

#include "cli/flags/command_line.h"
#include "collectives/factory.h"

namespace millrace::cli {

// The flags of commands with several ranks (docs/distributed.md).
struct LaunchFlags {
  collectives::ConnectOptions connect;
  int connect_timeout_s = 300;
  int timeout_s = 0;
  int stall_report_ms = 3000;
  int stall_abort_ms = 60'000;

  std::chrono::seconds connect_timeout() const { return std::chrono::seconds(connect_timeout_s); }
  // The options that they stand for.
  collectives::ConnectOptions options() const;
};

// Adds the flags. `flags` must live until the command line was parsed.
void AddLaunchFlags(Command command, LaunchFlags& flags);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_LAUNCH_H_
