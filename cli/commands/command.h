#ifndef MILLRACE_CLI_COMMANDS_COMMAND_H_
#define MILLRACE_CLI_COMMANDS_COMMAND_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/flags/command_line.h"

// The `millrace` command: one file per subcommand. Each Add function hangs its subcommand, its
// flags and what it does on `parent`.

namespace millrace::cli {

// Exit codes, documented in `millrace --help` and README.md.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kStoppedResumable =
    75;                               // sysexits.h EX_TEMPFAIL, as schedulers that requeue expect
inline constexpr int kPeerLost = 76;  // sysexits.h EX_PROTOCOL: the remote side broke off

void AddConvert(Command parent);
void AddInspect(Command parent);
void AddIndex(Command parent);
void AddVerify(Command parent);
void AddRepair(Command parent);
void AddCat(Command parent);
void AddSplit(Command parent);
void AddMerge(Command parent);
void AddSample(Command parent);
void AddExplain(Command parent);
void AddRun(Command parent);
void AddShow(Command parent);
void AddAudit(Command parent);
void AddBench(Command parent);
void AddTrain(Command parent);

// Prints "millrace: error: ..." to standard error, after all standard output, and returns kFailed.
int Fail(const absl::Status& status);
// The same for a wrong command line; returns kUsage.
int FailUsage(const std::string& text);
int FailUsage(const absl::Status& status);

// Parses the values of --var ("NAME=VALUE"); a name given twice or a missing '=' is
// INVALID_ARGUMENT.
absl::StatusOr<std::map<std::string, std::string>> ParseVariables(
    const std::vector<std::string>& assignments);

// INVALID_ARGUMENT unless shards that are called PREFIX-... stay inside their folder.
absl::Status CheckPrefix(const std::string& prefix);

// INVALID_ARGUMENT when there is no such rank (neither is negative).
absl::Status CheckRank(int rank, int world);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_COMMANDS_COMMAND_H_
