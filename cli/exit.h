#ifndef MILLRACE_CLI_EXIT_H_
#define MILLRACE_CLI_EXIT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/context.h"

// The exit codes of the `millrace` command, and the error line that it prints.

namespace millrace::cli {

// Documented in `millrace --help` and README.md.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
// sysexits.h EX_NOINPUT: `verify` found no damage, but could not read all files.
inline constexpr int kUnreadable = 66;
// sysexits.h EX_TEMPFAIL, as schedulers that requeue a job expect.
inline constexpr int kStoppedResumable = 75;
// sysexits.h EX_PROTOCOL: the remote side broke off.
inline constexpr int kPeerLost = 76;

// Prints "millrace: error: ..." to standard error, after all standard output, and returns kFailed.
int Fail(const absl::Status& status);

// Prints "millrace: warning: ..." to standard error.
void Warn(std::string_view text);
// A LogSink: warns of all but information.
void WarnOfLog(LogLevel level, std::string_view message);

// Prints "millrace: usage: ..." for a wrong command line, and returns kUsage.
int FailUsage(const std::string& text);
int FailUsage(const absl::Status& status);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EXIT_H_
